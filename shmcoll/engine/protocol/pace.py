"""The choice between two ways whose speeds differ by machine and by minute: the way that has been faster lately.

Two choices depend on how fast lines pass between the cores of the ranks. If the cores share a cache, blocks of up to 2
MiB go faster through cells than in one copy by the kernel (`exposure.py`), and cells are written faster by plain
stores than past the caches (`cells.py`). If they do not (two sockets, two chiplets, virtual cores that the host moves),
both are the other way round, by a factor of two to five. No length is a good threshold for both, and a virtual machine
changes between them within seconds.

So each rank measures its own long copies, waits excluded. The words are private; paces are ns for 64 KiB, lately:

    READ_PACE    a read of a peer's memory by the kernel
    FETCH_PACE   a copy out of a cell
    WRITE_PACE   a copy into a cell, by plain stores
    PASS_PACE    a copy into a cell, past the caches
    PACED_CALLS  exchanges so far in which the choice was free
    WRITES       copies into cells so far in which the choice was free

One copy or cells. An exchange in which each peer gets PACED_BYTES or more, but less than the threshold, takes one copy
if a read has clearly taken less than a copy into a cell and one out of it: less than three quarters of both. Near the
point where both take as long, ranks would choose differently, and then each makes copies of both kinds. One such call
in RETRY takes the other way, first an early one. So a rank notices that the other way has become the faster one, and
pays for that 1 / RETRY of what the slower way takes longer. Each rank chooses for its own array, and its peers find the
choice in its header.

Into a cell. A copy past the caches takes little time of the rank that makes it, but the peer then reads the cell from
further away. So it pays if plain stores take longer than it and a copy out of a cell together. The first copies try
both ways, then every RETRY_WRITE-th tries the other one. Nobody needs to know how a cell was written.

A pace moves by a quarter towards each new copy, which counts as at most MOST_CHANGE times the pace: one copy that was
interrupted changes little. A write that was faster than its pace counts at once: nothing makes a copy too fast.

No agreement is needed, and no result depends on a choice. With more ranks than cores nothing is measured, because the
time of a copy says which rank had the core: PACED_BYTES is out of reach, and WRITES is -1, for plain stores only.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import clock, peek, poke

TIMED_BYTES = 8 << 10  # shorter copies are neither measured nor do they pass the caches
UNIT = 64 << 10  # of shorter ones, every SAMPLE-th is measured: reading the clock takes 1 / 20 of 16 KiB
SAMPLE, RETRY, RETRY_WRITE = 8, 64, 256  # powers of two
FIRST_RETRY = 4  # the result has got its memory by then, and the ranks know that they can read each other
MOST_CHANGE = 4
LESS, MORE = 4, 3  # one copy takes less than three quarters of the two
RANGE = 64  # from a threshold down to PACED_BYTES


def limit_by_pace(ctx, share, limit):
    """Return the threshold for this call, in which each peer gets `share` bytes, if it would be `limit` otherwise."""
    if share < peek(ctx + c.PACED_BYTES) or share >= limit:
        return limit
    calls = peek(ctx + c.PACED_CALLS) + 1
    poke(ctx + c.PACED_CALLS, calls)
    written = peek(ctx + c.PASS_PACE) if is_faster_past_caches(ctx) else peek(ctx + c.WRITE_PACE)
    one_copy = 0 < LESS * peek(ctx + c.READ_PACE) < MORE * (written + peek(ctx + c.FETCH_PACE))
    if calls & (RETRY - 1) == FIRST_RETRY:
        one_copy = not one_copy
    return share if one_copy else limit


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
