"""reduce: the root gets the element-wise reduction of all ranks' arrays, of equal shape and dtype; the others nothing.

It has the three algorithms of all_reduce, and they give the same bits. Only the root takes the result.

flat: up to FLAT_BYTES. Every rank copies its array beside its header or into its cell before the opening sync. The root
reduces all n arrays. Cost: a + S b, and (n - 1) S g at the root.

ring: above that. Slices travel around the ranks as in all_reduce. The root brings each finished slice to its result.
Cost for each round of n slices: n a + slice b + (n - 1) slice g, and another (n - 1) slice b at the root.

cells: for operators that are not commutative, and up to (n - 2) RING_BYTES. The root alone collects the parts.

If x of every rank is in shared memory, another algorithm replaces the ring: each rank reduces its part of all arrays
where they are.

Protocol: `all_reduce_ring.py`, `all_reduce_parts.py`.

Argument: ARGUMENT is the root.
"""

from shmcoll.collectives.all_reduce import ALGORITHMS, reduce_for
from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import ALIKE, OUT_AT_ROOT, REDUCING, ROOTED, SHAPE, Collective
from shmcoll.engine.protocol.sync import begin

COVERS = SHAPE


def reduce(ctx):
    return reduce_for(ctx, begin(ctx, COVERS), peek(ctx + c.ARGUMENT))


COLLECTIVE = Collective(
    reduce, code=6, form=ROOTED | OUT_AT_ROOT | REDUCING | ALIKE, covers=COVERS, algorithms=ALGORITHMS, plans=True
)
