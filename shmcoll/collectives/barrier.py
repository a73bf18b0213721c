"""barrier: no rank leaves before every rank has entered.

The opening sync is all there is: every rank publishes one word and looks at n - 1 others (a flat all-to-all barrier;
for the few ranks of one machine the n^2 looks cost less than the log2 n dependent rounds of a dissemination barrier,
Hensgen et al. 1988). Cost: a.
"""

from shmcoll.engine.collective import NO_ARRAYS, SHAPE, Collective
from shmcoll.engine.protocol.sync import begin, meet

COVERS = SHAPE


def barrier(ctx):
    return meet(ctx, begin(ctx, COVERS))


COLLECTIVE = Collective(barrier, code=1, form=NO_ARRAYS, covers=COVERS, plans=True)
