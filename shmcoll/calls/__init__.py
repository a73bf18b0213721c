"""The slow way of each call: check the arguments, prepare them for the routine, and make the call.

Calls come here if the native entry does not accept their arguments as they are. Each function has as arguments the
`Dispatcher` of the group and the user's arguments. It returns the result of the method of that name.
"""

from shmcoll.calls.all_to_all import all_to_all as all_to_all
from shmcoll.calls.arrays import perform as perform
from shmcoll.calls.broadcast import broadcast as broadcast
from shmcoll.calls.collective_permute import collective_permute as collective_permute
from shmcoll.calls.counted_moves import all_gather_v as all_gather_v
from shmcoll.calls.counted_moves import all_to_all_v as all_to_all_v
from shmcoll.calls.counted_moves import gather_v as gather_v
from shmcoll.calls.counted_moves import scatter_v as scatter_v
from shmcoll.calls.gather import all_gather as all_gather
from shmcoll.calls.gather import gather as gather
from shmcoll.calls.halo_exchange import halo_exchange as halo_exchange
from shmcoll.calls.probe import probe as probe
from shmcoll.calls.recv import recv as recv
from shmcoll.calls.recv_object import recv_object as recv_object
from shmcoll.calls.reductions import all_reduce as all_reduce
from shmcoll.calls.reductions import exscan as exscan
from shmcoll.calls.reductions import reduce as reduce
from shmcoll.calls.reductions import reduce_scatter as reduce_scatter
from shmcoll.calls.reductions import reduce_scatter_v as reduce_scatter_v
from shmcoll.calls.reductions import scan as scan
from shmcoll.calls.scatter import scatter as scatter
from shmcoll.calls.send import send as send
from shmcoll.calls.send_object import send_object as send_object
from shmcoll.calls.sendrecv import sendrecv as sendrecv
from shmcoll.runtime.dispatcher import Dispatcher


def barrier(dispatcher: Dispatcher) -> None:
    dispatcher.run("barrier")
