"""How a rank writes its cells: the way that has been faster lately, which differs by machine and by minute.

If the cores of the ranks share a cache, cells are written faster by plain stores than past the caches (`cells.py`). If
they do not (two sockets, two chiplets, virtual cores that the host moves), it is the other way round, by a factor of
two to five. A virtual machine changes between them within seconds.

So each rank measures its own long copies, waits excluded. The words are private; paces are ns for 64 KiB, lately:

    FETCH_PACE   a copy out of a cell
    WRITE_PACE   a copy into a cell, by plain stores
    PASS_PACE    a copy into a cell, past the caches
    WRITES       copies into cells so far in which the choice was free

A copy past the caches takes little time of the rank that makes it, but the peer then reads the cell from further away.
So it pays if plain stores take longer than it and a copy out of a cell together. The first copies try both ways, then
every RETRY_WRITE-th tries the other one. Nobody needs to know how a cell was written.

A pace moves by a quarter towards each new copy, which counts as at most MOST_CHANGE times the pace: one copy that was
interrupted changes little. A write that was faster than its pace counts at once: nothing makes a copy too fast.

No agreement is needed, and no result depends on a choice. With more ranks than cores nothing is measured, because the
time of a copy says which rank had the core: WRITES is -1, for plain stores only.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import clock, peek, poke

TIMED_BYTES = 8 << 10  # shorter copies are neither measured nor do they pass the caches
UNIT = 64 << 10  # of shorter ones, every SAMPLE-th is measured: reading the clock takes 1 / 20 of 16 KiB
SAMPLE, RETRY_WRITE = 8, 256  # powers of two
MOST_CHANGE = 4


def passes_caches(ctx):
    """Return whether the next copy into a cell goes past the caches. For copies of TIMED_BYTES and more."""
    writes = peek(ctx + c.WRITES) + 1
    if writes == 0:
        return False
    poke(ctx + c.WRITES, writes)
    if peek(ctx + c.WRITE_PACE) == 0:
        return False
    if peek(ctx + c.PASS_PACE) == 0:
        return True
    faster = is_faster_past_caches(ctx)
    return not faster if writes & (RETRY_WRITE - 1) == 0 else faster


def is_faster_past_caches(ctx):
    passing = peek(ctx + c.PASS_PACE)
    fetching = peek(ctx + c.FETCH_PACE) or passing  # a root that only writes has not measured it
    return 0 < passing < peek(ctx + c.WRITE_PACE) - fetching


def begin_copy(ctx, length):
    """Return when a copy of so many bytes begins; 0 if it is not measured."""
    if length >= UNIT or (length >= TIMED_BYTES and peek(ctx + c.WRITES) & (SAMPLE - 1) == 0):
        return clock()
    return 0


def note_copy(ctx, pace, begun, length):
    """Let a copy count that began at `begun` and has just ended. `pace`: one of the paces."""
    if begun == 0:
        return
    took = (clock() - begun) * UNIT // length
    known = peek(ctx + pace)
    if known == 0 or (took < known and (pace == c.WRITE_PACE or pace == c.PASS_PACE)):
        poke(ctx + pace, took)
    else:
        poke(ctx + pace, known - (known - min(took, MOST_CHANGE * known)) // 4)
