"""Sums of an eager scan that ranks keep beside their headers (`collectives/prefix_flat.py`).

Words of rank r beside its header, behind its array, if there is room for them; only r writes them:

    KEPT   0, or 1 once the sum is there
    SUM    of the arrays of ranks 0, 1, ..., r, in the accumulator's type

    before r publishes its header    KEPT = 0
    when r has added its array       SUM, then KEPT = 1 with release

KEPT is read with acquire after the header has come, so a reader sees the 0 of this operation or a later 1, and never
what an earlier operation has left there. The header stays until the reader has finished the operation (`sync.py`).
Nobody waits for KEPT.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load_acquire, peek, store, store_release
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.cells import beside_header, may_be_eager
from shmcoll.engine.protocol.reduction import accumulator_bytes


def sum_fits(ctx):
    """Return whether KEPT and SUM fit beside a header."""
    sums = peek(ctx + c.X + c.COUNT) * accumulator_bytes(ctx)
    return may_be_eager(whole_words(peek(ctx + c.X + c.BYTES)) + WORD + sums)


def forget_sum(ctx):
    """Keep no sum yet."""
    store(kept(ctx, peek(ctx + c.RANK)), 0)


def keep_sum(ctx):
    """Let other ranks have what is in the place of this rank's sum."""
    store_release(kept(ctx, peek(ctx + c.RANK)), 1)


def has_sum(ctx, rank):
    """Return whether a rank has kept its sum, whose header has come."""
    return load_acquire(kept(ctx, rank))


def place_of_sum(ctx, rank):
    return kept(ctx, rank) + WORD


def kept(ctx, rank):
    """Return the address of KEPT of a rank, for this operation."""
    return beside_header(ctx, rank) + whole_words(peek(ctx + c.X + c.BYTES))


def whole_words(length):
    return (length + WORD - 1) & -WORD
