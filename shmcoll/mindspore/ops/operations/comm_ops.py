"""`mindspore.ops.operations.comm_ops`: the file in which MindSpore defines the operators."""

from shmcoll.mindspore.ops.all_to_all import AlltoAll, AlltoAllV, AlltoAllVC
from shmcoll.mindspore.ops.halos import NeighborExchangeV2
from shmcoll.mindspore.ops.messages import BatchISendIRecv, Receive, Send
from shmcoll.mindspore.ops.moves import AllGather, AllGatherV, Barrier, Broadcast, CollectiveGather, CollectiveScatter
from shmcoll.mindspore.ops.neighbors import NeighborExchange
from shmcoll.mindspore.ops.reductions import AllReduce, Reduce, ReduceOp, ReduceScatter, ReduceScatterV

__all__ = [
    "AllGather",
    "AllGatherV",
    "AllReduce",
    "AlltoAll",
    "AlltoAllV",
    "AlltoAllVC",
    "Barrier",
    "BatchISendIRecv",
    "Broadcast",
    "CollectiveGather",
    "CollectiveScatter",
    "NeighborExchange",
    "NeighborExchangeV2",
    "Receive",
    "Reduce",
    "ReduceOp",
    "ReduceScatter",
    "ReduceScatterV",
    "Send",
]
