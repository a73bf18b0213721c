"""`mindspore.ops`: collectives as primitives, made once with their settings and then called with a tensor.

Checks, their order and their words are those of MindSpore 2.10, quirks included; where the documents promise more (bool
in `AllReduce`, a `fusion` that is no integer), that is checked too.
"""

from shmcoll.mindspore.ops.all_to_all import AlltoAll
from shmcoll.mindspore.ops.reductions import AllReduce, ReduceOp

__all__ = ["AllReduce", "AlltoAll", "ReduceOp"]
