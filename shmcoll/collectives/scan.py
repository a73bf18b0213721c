"""scan: rank r gets the element-wise reduction of the arrays of ranks 0, 1, ..., r, in that order (MPI_Scan).

flat: up to FLAT_BYTES. Every rank copies its array beside its header or into its cell before the opening sync. Then
rank r reduces the first r + 1 of them. Cost: a + S b + r S g. If the array fits beside a header, rank r waits only for
the ranks before it, and takes the sum of one of them that has it already: then the cost may be as low as a + S b + S g.

chain: above that. A pipeline: the array is cut into m slices, and the partial result of each slice passes from rank to
rank. With m slices of S / m bytes the cost is (m + n - 1) (a + S / m (b + g)).

Protocol: `prefix_reduction.py`; of flat `prefix_flat.py`.
"""

from shmcoll.collectives.prefix_reduction import ALGORITHMS, prefix_reduce
from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import ALIKE, REDUCING, SHAPE, Collective
from shmcoll.engine.protocol.reduction import reduce_alone
from shmcoll.engine.protocol.sync import announce

COVERS = SHAPE


def scan(ctx):
    announce(ctx, COVERS)
    return reduce_alone(ctx) if peek(ctx + c.SIZE) == 1 else prefix_reduce(ctx, 1)


COLLECTIVE = Collective(scan, code=11, form=REDUCING | ALIKE, covers=COVERS, algorithms=ALGORITHMS, plans=True)
