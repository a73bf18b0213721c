"""One file a collective, or end of a message: what it does, its algorithm and cost, and the routine.

A routine is a function of one argument, the address of this rank's context, and returns a status of `context.py`. It
is plain Python that `engine/compiler/compile.py` compiles; it works on addresses and byte counts, allocates nothing and
raises nothing. In the cost formulas n is the number of ranks, S the bytes of one rank's array, a the time of one sync
(a cache line there and back), b the time to copy one byte, g the time to reduce one.
"""

from shmcoll.collectives.all_gather import all_gather
from shmcoll.collectives.all_gather_v import all_gather_v
from shmcoll.collectives.all_reduce import all_reduce
from shmcoll.collectives.all_to_all import all_to_all
from shmcoll.collectives.all_to_all_v import all_to_all_v
from shmcoll.collectives.barrier import barrier
from shmcoll.collectives.broadcast import broadcast
from shmcoll.collectives.collective_permute import collective_permute
from shmcoll.collectives.exscan import exscan
from shmcoll.collectives.gather import gather
from shmcoll.collectives.gather_v import gather_v
from shmcoll.collectives.halo_exchange import halo_exchange
from shmcoll.collectives.reduce import reduce
from shmcoll.collectives.reduce_scatter import reduce_scatter
from shmcoll.collectives.scan import scan
from shmcoll.collectives.scatter import scatter
from shmcoll.collectives.scatter_v import scatter_v
from shmcoll.engine.messages.recv import recv
from shmcoll.engine.messages.send import send

ROUTINES = {
    routine.__name__: routine
    for routine in (
        barrier,
        all_reduce,
        all_to_all,
        gather,
        all_to_all_v,
        broadcast,
        all_gather,
        scatter,
        reduce,
        reduce_scatter,
        scan,
        exscan,
        gather_v,
        scatter_v,
        all_gather_v,
        collective_permute,
        halo_exchange,
        send,
        recv,
    )
}
