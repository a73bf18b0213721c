"""`mindspore.ops`: collectives as primitives, made once with their settings and then called with a tensor.

    reductions    AllReduce, Reduce, ReduceScatter, ReduceScatterV, ReduceOp
    moves         AllGather, AllGatherV, Broadcast, CollectiveScatter, CollectiveGather, Barrier
    all_to_all    AlltoAll, AlltoAllV, AlltoAllVC
    neighbors     NeighborExchange
    halos         NeighborExchangeV2
    messages      Send, Receive, BatchISendIRecv

`shmcoll.mindspore.functions` has what else is here: `cat`, `split`, `zeros` and others that programs need around them.

Checks, their order and their words are those of MindSpore 2.10, quirks included; where the documents promise more (bool
in `AllReduce`, a `fusion` that is not an integer), that is checked too. Ranks are numbers in the group.
"""

from shmcoll.mindspore.functions import *  # noqa: F403
from shmcoll.mindspore.ops import adjoints as _  # noqa: F401
from shmcoll.mindspore.ops import operations
from shmcoll.mindspore.ops.operations.comm_ops import *  # noqa: F403
from shmcoll.mindspore.ops.operations.comm_ops import __all__ as _operators

__all__ = [*_operators, "operations"]
