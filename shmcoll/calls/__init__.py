"""One file a collective: its arguments, checked and made into what the routine reads, and the call.

The way for what the native entry does not take as it is. Each function takes the `Dispatcher` of the group and the
user's arguments, and returns what the method of that name does.
"""

from shmcoll.calls.all_gather import all_gather
from shmcoll.calls.all_gather_v import all_gather_v
from shmcoll.calls.all_reduce import all_reduce
from shmcoll.calls.all_to_all import all_to_all
from shmcoll.calls.all_to_all_v import all_to_all_v
from shmcoll.calls.arrays import perform
from shmcoll.calls.barrier import barrier
from shmcoll.calls.broadcast import broadcast
from shmcoll.calls.collective_permute import collective_permute
from shmcoll.calls.exscan import exscan
from shmcoll.calls.gather import gather
from shmcoll.calls.gather_v import gather_v
from shmcoll.calls.halo_exchange import halo_exchange
from shmcoll.calls.recv import recv
from shmcoll.calls.recv_object import recv_object
from shmcoll.calls.reduce import reduce
from shmcoll.calls.reduce_scatter import reduce_scatter
from shmcoll.calls.reduce_scatter_v import reduce_scatter_v
from shmcoll.calls.scan import scan
from shmcoll.calls.scatter import scatter
from shmcoll.calls.scatter_v import scatter_v
from shmcoll.calls.send import send
from shmcoll.calls.send_object import send_object
from shmcoll.calls.sendrecv import sendrecv

__all__ = [
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "barrier",
    "broadcast",
    "collective_permute",
    "exscan",
    "gather",
    "gather_v",
    "halo_exchange",
    "perform",
    "recv",
    "recv_object",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_v",
    "scan",
    "scatter",
    "scatter_v",
    "send",
    "send_object",
    "sendrecv",
]
