"""reduce: the root gets the element-wise reduction of all ranks' arrays, of equal shape and dtype; the others nothing.

It has the three algorithms of all_reduce, and they give the same bits. Only the root takes the result.

flat: up to FLAT_BYTES. Every rank copies its array beside its header or into its cell before the opening sync. The root
reduces all n arrays. Cost: a + S b, and (n - 1) S g at the root. If the array fits beside a header, only the root
waits.

ring: above that. Slices travel around the ranks as in all_reduce. The root brings each finished slice to its result.
Cost for each round of n slices: n a + slice b + (n - 1) slice g, and another (n - 1) slice b at the root.

cells: for operators that are not commutative, and up to (n - 2) RING_BYTES. The root alone collects the parts.

If x of every rank is in shared memory, another algorithm replaces the ring: each rank reduces its part of all arrays
where they are.

Protocol: `all_reduce_ring.py`, `all_reduce_parts.py`; for few bytes an eager operation (`engine/protocol/sync.py`).

Argument: ARGUMENT is the root.
"""

from shmcoll.collectives.all_reduce import ALGORITHMS, is_short, reduce_for
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.collective import ALIKE, OUT_AT_ROOT, REDUCING, ROOTED, SHAPE, Collective
from shmcoll.engine.protocol.cells import EAGER, beside_header, may_be_eager
from shmcoll.engine.protocol.sync import announce, keep_room, next_turn, publish_header

COVERS = SHAPE


def reduce(ctx):
    announce(ctx, COVERS)
    root = peek(ctx + c.ARGUMENT)
    if not is_short(ctx, root) or not may_be_eager(peek(ctx + c.X + c.BYTES)):
        return reduce_for(ctx, next_turn(ctx), root)
    if peek(ctx + c.RANK) == root:
        return reduce_for(ctx, EAGER, root)
    copy(beside_header(ctx, peek(ctx + c.RANK)), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES))
    publish_header(ctx)
    return keep_room(ctx)


COLLECTIVE = Collective(
    reduce, code=6, form=ROOTED | OUT_AT_ROOT | REDUCING | ALIKE, covers=COVERS, algorithms=ALGORITHMS, plans=True
)
