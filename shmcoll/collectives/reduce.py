"""reduce: the root gets the element-wise reduction of all ranks' arrays, of equal shape and dtype; the others nothing.

It has the three algorithms of all_reduce, and they give the same bits. Only the root takes the result.

flat: up to FLAT_BYTES. Every rank copies its array beside its header or into its cell before the opening sync. The root
reduces all n arrays. Cost: a + S b, and (n - 1) S g at the root.

ring: above that. Slices travel around the ranks as in all_reduce. The root brings each finished slice to its result.
Cost for each round of n slices: n a + slice b + (n - 1) slice g, and another (n - 1) slice b at the root.

cells: for operators that are not commutative, and up to (n - 2) RING_BYTES. The root alone collects the parts.

If x of every rank is in shared memory, another algorithm replaces the ring: each rank reduces its part of all arrays
where they are.

Protocol: `all_reduce_ring.py`, `all_reduce_cells.py`, `reduce_shared.py`.

Argument: ARGUMENT is the root.
"""

from shmcoll.collectives.all_reduce import ALGORITHMS, CELLS, FLAT, flat
from shmcoll.collectives.all_reduce_cells import reduce_in_cells
from shmcoll.collectives.all_reduce_ring import reduce_in_ring
from shmcoll.collectives.reduce_shared import reduce_shared
from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import ALIKE, OUT_AT_ROOT, REDUCING, ROOTED, SHAPE, Collective
from shmcoll.engine.protocol.exposure import expose_in_arena, results_are_apart
from shmcoll.engine.protocol.reduction import chosen, goes_through_cells, is_flat, reduce_alone
from shmcoll.engine.protocol.shared_reduction import are_all_in_arena
from shmcoll.engine.protocol.sync import begin, exchange_headers

COVERS = SHAPE


def reduce(ctx):
    sequence, root = begin(ctx, COVERS), peek(ctx + c.ARGUMENT)
    if peek(ctx + c.SIZE) == 1:
        return reduce_alone(ctx)
    if is_flat(ctx, FLAT, peek(ctx + c.X + c.BYTES)):
        return flat(ctx, sequence, root)
    if goes_through_cells(ctx, CELLS, peek(ctx + c.X + c.BYTES)):
        return reduce_in_cells(ctx, sequence, root)
    expose_in_arena(ctx, sequence, peek(ctx + c.X + c.BYTES), peek(ctx + c.RANK) == root)
    status = exchange_headers(ctx, sequence)
    if status != c.OK:
        return status
    if chosen(ctx) or not are_all_in_arena(ctx, sequence, peek(ctx + c.X + c.BYTES)):
        return reduce_in_ring(ctx, sequence, root)
    return reduce_shared(ctx, sequence, root) if results_are_apart(ctx, sequence) else c.OVERLAP


COLLECTIVE = Collective(
    reduce, code=6, form=ROOTED | OUT_AT_ROOT | REDUCING | ALIKE, covers=COVERS, algorithms=ALGORITHMS, plans=True
)
