"""MindSpore's collectives on shared memory, with MindSpore's names and arguments.

    ops                    AllReduce, AlltoAll, ReduceOp
    communication          init, release, get_rank, get_group_size, ..., GlobalComm
    mint.distributed       init_process_group, gather, CommHandle, ...

Where MindSpore is not installed, scripts find here what else they need: `Tensor`, the dtypes, `nn.Cell`, `context`. A
script written for MindSpore changes only its import lines: `import shmcoll.mindspore as ms`.

A collective returns the kind of tensor that it is given: a numpy array, a `Tensor` of this package, or a tensor of
MindSpore itself (PyNative mode). This package never imports MindSpore.

Only the world group exists in this release. What MindSpore's documents demand of the machine (device target, full-mesh
network, VLAN, rank table, scheduler) does not apply.
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
