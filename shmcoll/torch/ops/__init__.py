"""Collectives as operators of torch, for inference and for compiled code: `torch.ops.shmcoll`.

    from shmcoll.torch import ops
    group = ops.handle()  # of the default group, or of any other
    torch.ops.shmcoll.all_reduce_(x, group)

A call takes a third of the time that it takes through `torch.distributed`, and `torch.compile(fullgraph=True)` accepts
it. The operators, where `int group` is a handle:

    all_reduce_(Tensor(a!) x, int group, str op="sum") -> ()
    broadcast_(Tensor(a!) x, int group, int root=0) -> ()
    all_gather_into_tensor_(Tensor(a!) out, Tensor x, int group) -> ()
    reduce_scatter_tensor_(Tensor(a!) out, Tensor x, int group, str op="sum") -> ()
    all_to_all_single_(Tensor(a!) out, Tensor x, int group, SymInt[]? output_split_sizes=None,
                       SymInt[]? input_split_sizes=None) -> ()

and the same without the underscore, and without `out`, which return their result. Those have gradients. `op` is sum,
avg, prod, min, max, band, bor or bxor; sum and avg have gradients.

native      the entry that reads tensors, with what it must know about torch
groups      the handles
kernels     what the operators do
shapes      what they return, for tensors without memory
gradients   their gradients
schemas     the operators, as torch knows them
replacing   torch's own collectives, made by these
"""

from shmcoll.torch.ops import schemas as _schemas  # noqa: F401  # it registers the operators
from shmcoll.torch.ops.groups import handle

__all__ = ["handle"]
