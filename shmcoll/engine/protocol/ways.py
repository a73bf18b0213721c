"""Which way the blocks of a collective go. No other file decides that; `reduction.py` does for reductions.

    a rank stages no more than a cell, and each       the short way: one sync, in the collective's own file
    peer reads less than EXPOSING_BYTES
    x is in the arena, each peer reads                exposed: peers read x where it is, by plain loads
    SHARED_BYTES or more
    all peers can read the rank's private memory,     exposed: peers read x where it is, by the kernel
    and each reads at least what is said below
    else                                              cells, in rounds

All but the short way go through `block_mover.py`. Each rank decides for its own array. A read by the kernel may take
several times as long as one from a cell that is in the cache. Through cells both ranks copy at once, and a cell is
written once for all its readers. So private arrays are exposed from so many bytes for each peer on:

    FROM_ROOT    scatter, scatter_v             DIRECT_BYTES. The root would write all cells, and its peers read side
                                                by side
    EXCHANGE     all_to_all, all_to_all_v,      EXCHANGE_BYTES. Two copies become one on each rank
                 collective_permute
    TO_ALL       broadcast                      TO_ALL_BYTES: of two ranks 32 times EXCHANGE_BYTES, else never. All
                                                other peers would read the same cell
    ALL_TO_ALL   all_gather, all_gather_v       TO_ALL_BYTES / ALL_READ of two ranks, else never: likewise
    TO_ROOT      gather, gather_v               NEVER. The root would make all copies; through cells the senders make
                                                half of them

By trials: with PACED_BYTES or more for each peer, but less than the threshold, a call goes the way that has been faster
in trials (`choices.py`), as long as each rank has a core. The last three do so between two ranks only. Only ranks that
send ask. What is timed is all that the mover does, and the opening only where a rank reads nothing: elsewhere, a peer
that comes late changes nothing.

Ranks that go different ways make copies of both kinds, one after the other, which takes longer than either way. They
do not find the same times, because the quicker one does not see how long the other one copies its own block. So rank 0
leads: a rank that gets as much from rank 0 as it sends there goes the way that rank 0 went in the call before.

EXPOSING_BYTES is the smallest of all thresholds. The thresholds of a job come from `engine/memory/thresholds.py`;
`runtime/dispatcher.py` writes them into the context.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.protocol.choices import MOVES, choice_of, way_of

FROM_ROOT, EXCHANGE, TO_ALL, ALL_TO_ALL, TO_ROOT = range(5)

TO_ALL_FACTOR = 32  # times EXCHANGE_BYTES is TO_ALL_BYTES of two ranks
ALL_READ = 8
RANGE = 256  # from a threshold down to PACED_BYTES
NEVER = 1 << 62  # instead of a threshold


def is_short(ctx, staged, share):
    """Return whether a call goes the short way, in which a rank stages so many bytes and each peer reads `share`."""
    return staged <= peek(ctx + c.CELL_BYTES) and not may_expose(ctx, share)


def may_expose(ctx, share):
    """Return whether a rank may expose an array of which each peer reads so many bytes."""
    return share >= peek(ctx + c.EXPOSING_BYTES)


def least_exposed(ctx, way, share):
    """Return from which share on private memory is exposed in this call, in which each peer reads `share` bytes."""
    limit = threshold(ctx, way)
    if share < peek(ctx + c.PACED_BYTES) or share >= limit or (several_read(way) and peek(ctx + c.SIZE) > 2):
        return limit
    choice = choice_of(ctx, MOVES + way, share)
    poke(ctx + c.TIMED, choice)
    return share if way_of(ctx, choice, 0) else limit


def threshold(ctx, way):
    """Return from which share on private memory is exposed without trials."""
    if way == FROM_ROOT:
        return peek(ctx + c.DIRECT_BYTES)
    if way == EXCHANGE:
        return peek(ctx + c.EXCHANGE_BYTES)
    if way == TO_ALL:
        return peek(ctx + c.TO_ALL_BYTES)
    if way == ALL_TO_ALL and peek(ctx + c.SIZE) == 2:
        return peek(ctx + c.TO_ALL_BYTES) // ALL_READ
    return NEVER


def several_read(way):
    """Return whether several peers read the same cell, or one peer those of all."""
    return way != FROM_ROOT and way != EXCHANGE
