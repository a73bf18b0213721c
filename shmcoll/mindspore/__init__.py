"""MindSpore's collectives on shared memory, with MindSpore's names and arguments.

    ops                    AllReduce, AlltoAll, ReduceOp, ...
    communication          init, release, get_rank, get_group_size, create_group, ..., GlobalComm
    mint.distributed       init_process_group, gather, CommHandle, ...

Where MindSpore is not installed, scripts find here what else they need: `Tensor`, `Parameter`, the dtypes, `nn.Cell`,
`context`, `log`, and functions of `ops` and `mint` that make, join and cut tensors. A script written for MindSpore
changes only its import lines: `import shmcoll.mindspore as ms`. Or none, if `sys.modules["mindspore"]` is this package.

A collective returns the kind of tensor that it is given: a numpy array, a `Tensor` of this package, or a tensor of
MindSpore itself (PyNative mode), with gradients. This package never imports MindSpore.

What MindSpore's documents demand of the machine (device target, full-mesh network, VLAN, rank table, scheduler) does
not apply.
"""

from shmcoll.engine.system.tracebacks import borders
from shmcoll.mindspore import common, communication, context, log, mint, nn, ops
from shmcoll.mindspore.common import Parameter, ParameterTuple, Tensor, dtype, get_seed, set_seed, tensor
from shmcoll.mindspore.common.dtype import (
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
from shmcoll.mindspore.context import (
    COMPATIBLE,
    GRAPH_MODE,
    LAX,
    PYNATIVE_MODE,
    STRICT,
    ParallelMode,
    get_auto_parallel_context,
    get_context,
    get_ps_context,
    reset_auto_parallel_context,
    reset_ps_context,
    set_auto_parallel_context,
    set_context,
    set_device,
    set_ps_context,
)
from shmcoll.profiling.front_ends import name_calls
from shmcoll.startup import module_aliases

module_aliases.install()
_FAST = ("exchanges", "lists", "messages", "parts", "tensors")
borders(__name__, fast=("common.tensor", *(f"mint.distributed.{name}" for name in _FAST)))
name_calls("mindspore.communication.comm_func", communication.comm_func)
name_calls("mindspore.mint.distributed", mint.distributed)
name_calls("mindspore.ops", ops)

__all__ = [
    "COMPATIBLE",
    "GRAPH_MODE",
    "LAX",
    "PYNATIVE_MODE",
    "STRICT",
    "ParallelMode",
    "Parameter",
    "ParameterTuple",
    "Tensor",
    "bfloat16",
    "bool_",
    "common",
    "communication",
    "complex64",
    "complex128",
    "context",
    "dtype",
    "float16",
    "float32",
    "float64",
    "get_auto_parallel_context",
    "get_context",
    "get_ps_context",
    "get_seed",
    "int8",
    "int16",
    "int32",
    "int64",
    "log",
    "mint",
    "nn",
    "ops",
    "reset_auto_parallel_context",
    "reset_ps_context",
    "set_auto_parallel_context",
    "set_context",
    "set_device",
    "set_ps_context",
    "set_seed",
    "tensor",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
