"""MindSpore's collectives, as MindSpore spells them, on shared memory.

    ops                    AllReduce, AlltoAll, ReduceOp
    communication          init, release, get_rank, get_group_size, ..., GlobalComm
    mint.distributed       init_process_group, gather, CommHandle, ...

and the little that scripts need around them where MindSpore is not installed: `Tensor`, the dtypes, `nn.Cell`,
`context`. A script written for MindSpore changes only its import lines: `import shmcoll.mindspore as ms`.

What goes in comes out: a collective given a numpy array returns a numpy array, given a `Tensor` of this package that
`Tensor`, given one of MindSpore's own (PyNative mode) one of MindSpore's own. MindSpore itself is never imported here.

Groups: only the world exists in this release. The documents' demands on the machine (device target, full-mesh network,
VLAN, rank table, scheduler) do not apply.
"""

from shmcoll.mindspore import communication, context, mint, nn, ops
from shmcoll.mindspore.context import GRAPH_MODE, PYNATIVE_MODE, get_context, set_context
from shmcoll.mindspore.dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from shmcoll.mindspore.tensor import Tensor

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "Tensor",
    "bfloat16",
    "bool_",
    "communication",
    "complex64",
    "complex128",
    "context",
    "float16",
    "float32",
    "float64",
    "get_context",
    "int8",
    "int16",
    "int32",
    "int64",
    "mint",
    "nn",
    "ops",
    "set_context",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
