"""`mindspore.mint.distributed`: collectives that write into tensors given to them, and may be asynchronous.

    process_group    the job and its groups
    tensors          collectives on one tensor of each rank
    lists            collectives on a list of tensors
    messages         from rank to rank
    objects          collectives and messages of objects
    tcp_store        TCPStore
    distributed      all of these, under the path where MindSpore has them

Checks, their order and their words are those of MindSpore 2.10: nearly everything is a `TypeError`.
"""

from shmcoll.mindspore.mint.distributed import distributed as distributed
from shmcoll.mindspore.mint.distributed.distributed import (
    CommHandle as CommHandle,
)
from shmcoll.mindspore.mint.distributed.distributed import (
    P2POp,
    all_gather,
    all_gather_into_tensor,
    all_gather_into_tensor_uneven,
    all_gather_object,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    broadcast_object_list,
    destroy_process_group,
    gather,
    gather_object,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    init_process_group,
    irecv,
    is_available,
    is_initialized,
    isend,
    new_group,
    recv,
    recv_object_list,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    reduce_scatter_tensor_uneven,
    scatter,
    scatter_object_list,
    send,
    send_object_list,
)
from shmcoll.mindspore.mint.distributed.distributed import (
    TCPStore as TCPStore,
)

__all__ = [
    "P2POp",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_into_tensor_uneven",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "irecv",
    "is_available",
    "is_initialized",
    "isend",
    "new_group",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_uneven",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
]
