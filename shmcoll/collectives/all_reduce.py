"""all_reduce: every rank gets the element-wise reduction of all ranks' arrays, of equal shape and dtype.

There are three algorithms. All give the same bits, because they add in the same order.

flat: up to FLAT_BYTES for two ranks, and 2 / n of that for more. Every rank copies its array beside its header
(48 bytes) or into its cell before the opening sync. Afterwards every rank reduces all n arrays itself. There is one
sync. Cost: a + S b + (n - 1) S g.

ring: above that. The ring in shared memory ("movement-avoiding reduction", Peng et al., SC'23). The array is cut into
slices. In each round n slices travel around the ranks, and each rank adds its own elements to each of them. The rank
that adds last writes the slice into its result and into a cell, and all other ranks copy it from there. No rank copies
its whole array into cells. Cost for each round of n slices: n a + (2 n slice) b + (n slice) g. If all arrays are
shared, each rank reduces its part of them where they are, and copies the other parts from the results of the others.

cells: for operators that are not commutative (the ring starts each slice at another rank), and up to
(n - 2) RING_BYTES, where the steps of the ring take longer than copying the whole array into the cell (with 8 ranks on
2 cores 45 us instead of 97 at 64 KiB, 182 instead of 253 at 256 KiB). Reduce-scatter and all-gather through the cells:
in each round every rank fills its cell, reduces its n-th of it from all cells, and copies all parts from the cells that
hold them. Cost for each round: 2 a + 2 cell b + (n - 1) / n cell g.

Protocol of each algorithm: `all_reduce_ring.py`, `all_reduce_parts.py`; flat is one sync. The order of additions:
`engine/protocol/reduction.py`.
"""

from shmcoll.collectives.all_reduce_parts import ARENA, RESULTS, reduce_in_cells, reduce_in_parts, results_fit
from shmcoll.collectives.all_reduce_ring import reduce_in_ring
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.collective import ALIKE, REDUCING, SHAPE, Collective
from shmcoll.engine.layout import HEADER_EXPOSED, HEADER_RESULT
from shmcoll.engine.protocol.cells import payload
from shmcoll.engine.protocol.exposure import are_all_in_arena, expose_in_arena, results_are_apart
from shmcoll.engine.protocol.reduction import (
    ALL,
    chosen,
    fold_slices,
    gets_result,
    goes_through_cells,
    is_flat,
    reduce_alone,
)
from shmcoll.engine.protocol.sync import begin, exchange_headers

COVERS = SHAPE
ALGORITHMS = ("flat", "ring", "cells")
FLAT, RING, CELLS = range(1, 4)


def all_reduce(ctx):
    return reduce_for(ctx, begin(ctx, COVERS), ALL)


def reduce_for(ctx, turn, root):
    """Reduce the arrays of all ranks into the result of `root`, or of ALL."""
    length = peek(ctx + c.X + c.BYTES)
    if peek(ctx + c.SIZE) == 1:
        return reduce_alone(ctx)
    if is_short(ctx, root):
        return flat(ctx, turn, root)
    if goes_through_cells(ctx, CELLS, length):
        return reduce_in_cells(ctx, turn, root)
    expose_in_arena(ctx, length, gets_result(ctx, root))
    status = exchange_headers(ctx)
    if status != c.OK:
        return status
    if chosen(ctx) or not are_all_in_arena(ctx, HEADER_EXPOSED, length):
        return reduce_in_ring(ctx, turn, root)
    if root != ALL:
        return reduce_in_parts(ctx, turn, root, ARENA) if results_are_apart(ctx) else c.OVERLAP
    if not are_all_in_arena(ctx, HEADER_RESULT, length):
        return reduce_in_ring(ctx, turn, ALL)
    return reduce_in_parts(ctx, turn, ALL, RESULTS) if results_fit(ctx) else c.OVERLAP


def is_short(ctx, root):
    """Return whether the call uses the flat algorithm. If all ranks get the result, it does if n whole arrays take less
    time than an n-th of them and another sync."""
    length = peek(ctx + c.X + c.BYTES)
    few = root != ALL or chosen(ctx) == FLAT or length * peek(ctx + c.SIZE) <= 2 * peek(ctx + c.FLAT_BYTES)
    return is_flat(ctx, FLAT, length) and few


def flat(ctx, turn, root):
    """Stage this rank's array, open, and reduce all arrays into the result of `root`, or of ALL."""
    length = peek(ctx + c.X + c.BYTES)
    copy(payload(ctx, peek(ctx + c.RANK), turn, length), peek(ctx + c.X + c.DATA), length)
    status = exchange_headers(ctx)
    if status != c.OK or length == 0 or not gets_result(ctx, root):
        return status
    places = payload(ctx, 0, turn, length)
    stride = payload(ctx, 1, turn, length) - places
    return fold_slices(ctx, peek(ctx + c.OUT + c.DATA), places, stride, 0, peek(ctx + c.X + c.COUNT))


COLLECTIVE = Collective(all_reduce, code=2, form=REDUCING | ALIKE, covers=COVERS, algorithms=ALGORITHMS, plans=True)
