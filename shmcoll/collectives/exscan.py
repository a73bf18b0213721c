"""exscan: rank r gets the element-wise reduction of the arrays of ranks 0, 1, ..., r - 1, in that order; rank 0 gets
nothing (MPI_Exscan).

It has the algorithms of scan, with one array less on each rank. Cost: that of scan, and in the chain S b more.

Protocol: `prefix_reduction.py`.
"""

from shmcoll.collectives.prefix_reduction import ALGORITHMS, prefix_reduce
from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import ALIKE, NO_OUT_AT_0, REDUCING, SHAPE, Collective
from shmcoll.engine.protocol.sync import announce

COVERS = SHAPE


def exscan(ctx):
    announce(ctx, COVERS)
    return c.OK if peek(ctx + c.SIZE) == 1 else prefix_reduce(ctx, 0)


COLLECTIVE = Collective(
    exscan, code=12, form=REDUCING | ALIKE | NO_OUT_AT_0, covers=COVERS, algorithms=ALGORITHMS, plans=True
)
