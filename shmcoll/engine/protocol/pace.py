"""How a rank writes its cells: the way that has been faster lately, which differs by machine and by minute.

If the cores of the ranks share a cache, cells are written faster by plain stores than past the caches (`cells.py`). If
they do not (two sockets, two chiplets, virtual cores that the host moves), it is the other way round, by a factor of
two to five. A virtual machine changes between them within seconds.

So each rank measures its own long copies, waits excluded. The words are private; paces are ns for 64 KiB, lately:

    FETCH_PACE   a copy out of a cell
    WRITE_PACE   a copy into a cell, by plain stores
    PASS_PACE    a copy into a cell, past the caches
    WRITES       copies into cells so far
    CROWDED      whether there are more ranks than cores

A copy past the caches takes little time of the rank that makes it, but the peer then reads the cell from further away.
So it pays if plain stores take longer than it and a copy out of a cell together. The first copies try both ways, then
one in RETRY_WRITE tries the other one. Nobody needs to know how a cell was written.

A pace moves by a quarter towards each new copy, which counts as at most MOST_CHANGE times the pace: one copy that was
interrupted changes little. A write that was faster than its pace counts at once: nothing makes a copy too fast.

With more ranks than cores some readers share the core of the writer. Plain stores for them are fast in any minute, so
that the fastest write says nothing, and what counts is what a write takes on the average. There FETCH_PACE and
WRITE_PACE move by one part in STEPS_CROWDED, down as slowly as up. Every eighth write would not do, because a call of
nine ranks writes for eight readers, and always the same one would count: see `is_one_in`. WRITE_PACE begins at
FIRST_PACE, that of a core that writes for itself: one slow copy at the beginning would count for long. Past the caches,
the readers on the core of the writer lose what others gain. So plain stores must take MORE / LESS times as long as the
copy past the caches and the one out of a cell together.

    8 ranks on 2 cores, ns      WRITE_PACE        FETCH_PACE    PASS_PACE    time of a call, past the caches
    cores that share a cache    4,000 to 7,000    1,500         2,500        0.9 (broadcast) to 1.6 (all_to_all)
    cores that do not           15,000 to 28,000  3,500         2,500        0.35 (broadcast) to 0.7 (all_gather)

No agreement is needed, and no result depends on a choice.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import clock, peek, poke

TIMED_BYTES = 8 << 10  # shorter copies are neither measured nor do they pass the caches
UNIT = 64 << 10  # of shorter ones, one in SAMPLE is measured: reading the clock takes 1 / 20 of 16 KiB
SAMPLE, SAMPLE_CROWDED, RETRY_WRITE = 8, 32, 256  # each a multiple of the one before
MOST_CHANGE = 4
STEPS, STEPS_CROWDED = 4, 32
MORE, LESS = 3, 2
FIRST_PACE = 1000
WHOLE, GOLDEN_RATIO = 1 << 20, 648055


def passes_caches(ctx):
    """Return whether the next copy into a cell goes past the caches. For copies of TIMED_BYTES and more."""
    writes = peek(ctx + c.WRITES) + 1
    poke(ctx + c.WRITES, writes)
    if peek(ctx + c.WRITE_PACE) == 0:
        return False
    if peek(ctx + c.PASS_PACE) == 0:
        return True
    faster = is_faster_past_caches(ctx)
    return not faster if is_one_in(RETRY_WRITE, writes) else faster


def is_faster_past_caches(ctx):
    passing = peek(ctx + c.PASS_PACE)
    fetching = peek(ctx + c.FETCH_PACE) or passing  # a root that only writes has not measured it
    if peek(ctx + c.CROWDED):
        return MORE * (passing + fetching) < LESS * peek(ctx + c.WRITE_PACE)
    return passing + fetching < peek(ctx + c.WRITE_PACE)


def is_one_in(interval, writes):
    """Return whether something that is done in one of so many writes is due: where multiples of the golden ratio are
    nearly whole numbers. So it is due at nearly even distances, and in the end at each place of rows of any length."""
    return writes * GOLDEN_RATIO % WHOLE < WHOLE // interval


def begin_copy(ctx, length):
    """Return when a copy of so many bytes begins; 0 if it is not measured."""
    if length < TIMED_BYTES:
        return 0
    crowded = peek(ctx + c.CROWDED)
    if (length < UNIT or crowded) and not is_one_in(SAMPLE_CROWDED if crowded else SAMPLE, peek(ctx + c.WRITES)):
        return 0
    return clock()


def note_copy(ctx, pace, begun, length):
    """Let a copy count that began at `begun` and has just ended. `pace`: one of the paces."""
    if begun == 0:
        return
    took = (clock() - begun) * UNIT // length
    known, crowded = peek(ctx + pace), peek(ctx + c.CROWDED)
    if known == 0 or (took < known and (pace == c.PASS_PACE or (pace == c.WRITE_PACE and not crowded))):
        poke(ctx + pace, took)
    else:
        steps = STEPS_CROWDED if crowded else STEPS
        poke(ctx + pace, known - (known - min(took, MOST_CHANGE * known)) // steps)
