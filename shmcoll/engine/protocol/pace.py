"""Which way exchanged arrays of a middle length go: the way that has been faster lately.

Through cells each byte is copied twice, by plain loops. In one copy it is read once, by the kernel (`exposure.py`).
Which of the two is faster depends on how fast lines pass between the cores of the ranks. If the cores share a cache,
blocks of up to 2 MiB go faster through the cells: 256 KiB in 44 us, in one copy in 54. If they do not (two sockets, two
chiplets, virtual cores that the host moves), blocks of 64 KiB and more go faster in one copy: 256 KiB in 51 us, through
the cells in 105. No length is a good threshold for both, and a virtual machine changes between them within seconds.

So each rank measures its own long copies, waits excluded. The words are private:

    CELL_PACE    ns for 64 KiB, lately, into a cell or out of one
    READ_PACE    the same for a read of a peer's memory by the kernel
    PACED_CALLS  calls so far in which the choice was free

An exchange in which each peer gets PACED_BYTES or more, but less than the threshold, takes one copy if a read has
clearly taken less than two copies through a cell: less than three quarters of them. Near the point where both take as
long, ranks would choose differently, and then each makes copies of both kinds (all_to_all of 4 MiB 422 us, instead of
341 and 365). Every RETRY-th such call takes the other way. So a rank notices that the other way has become the faster
one, and pays for that 1 / RETRY of what the slower way takes longer. A pace moves by a quarter towards each new copy,
which counts as at most MOST_CHANGE times the pace: one copy that was interrupted changes little.

Each rank chooses for its own array, and its peers find the choice in its header. So no agreement is needed, and no
result depends on it.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import clock, peek, poke

TIMED_BYTES = 32 << 10  # shorter copies take as long as reading the clock can err
UNIT = 64 << 10
RETRY = 64  # a power of two
MOST_CHANGE = 4
LESS, MORE = 2, 3  # one copy takes less than three quarters of two
RANGE = 64  # from a threshold down to PACED_BYTES


def limit_by_pace(ctx, share, limit):
    """Return the threshold for this call, in which each peer gets `share` bytes, if it would be `limit` otherwise."""
    if share < peek(ctx + c.PACED_BYTES) or share >= limit:
        return limit
    calls = peek(ctx + c.PACED_CALLS) + 1
    poke(ctx + c.PACED_CALLS, calls)
    one_copy = 0 < LESS * peek(ctx + c.READ_PACE) < MORE * peek(ctx + c.CELL_PACE)
    if calls & (RETRY - 1) == 0:
        one_copy = not one_copy
    return share if one_copy else limit


def begin_copy(length):
    """Return when a copy of so many bytes begins; 0 if it is not measured."""
    return clock() if length >= TIMED_BYTES else 0


def note_copy(ctx, pace, begun, length):
    """Let a copy count that began at `begun` and has just ended. `pace`: CELL_PACE or READ_PACE."""
    if begun == 0:
        return
    took = (clock() - begun) * UNIT // length
    known = peek(ctx + pace)
    if known == 0:
        poke(ctx + pace, took)
    else:
        poke(ctx + pace, known - (known - min(took, MOST_CHANGE * known)) // 4)
