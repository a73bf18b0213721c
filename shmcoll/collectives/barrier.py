"""barrier: no rank leaves before every rank has entered.

A barrier is only the opening sync: every rank publishes one word and reads n - 1 others. This is a flat all-to-all
barrier. For the few ranks of one machine its n^2 reads cost less than the log2 n dependent rounds of a dissemination
barrier (Hensgen et al. 1988). Cost: a.
"""

from shmcoll.engine.collective import NO_ARRAYS, SHAPE, Collective
from shmcoll.engine.protocol.sync import begin, exchange_headers

COVERS = SHAPE


def barrier(ctx):
    begin(ctx, COVERS)
    return exchange_headers(ctx)


COLLECTIVE = Collective(barrier, code=1, form=NO_ARRAYS, covers=COVERS, plans=True)
