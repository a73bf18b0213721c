"""`mindspore.ops.operations.comm_ops`: the file in which MindSpore defines the operators."""

from shmcoll.mindspore.ops.all_to_all import AlltoAll
from shmcoll.mindspore.ops.reductions import AllReduce, ReduceOp

__all__ = ["AllReduce", "AlltoAll", "ReduceOp"]
