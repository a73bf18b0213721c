"""The operators, as torch's dispatcher knows them.

A kernel of every backend is the same Python function, which refuses tensors that are not on the CPU. The dispatcher
materialises views that conjugate or negate, except for operators that write: for these it expects a result.
"""

import torch

from shmcoll.torch.ops import kernels, shapes
from shmcoll.torch.ops.gradients import differentiable

_SPLITS = "SymInt[]? output_split_sizes=None, SymInt[]? input_split_sizes=None"

_IN_PLACE = {
    "all_reduce_": 'Tensor(a!) x, int group, str op="sum"',
    "broadcast_": "Tensor(a!) x, int group, int root=0",
    "all_gather_into_tensor_": "Tensor(a!) out, Tensor x, int group",
    "reduce_scatter_tensor_": 'Tensor(a!) out, Tensor x, int group, str op="sum"',
    "all_to_all_single_": f"Tensor(a!) out, Tensor x, int group, {_SPLITS}",
}
_WITH_RESULT = {
    "all_reduce": 'Tensor x, int group, str op="sum"',
    "broadcast": "Tensor x, int group, int root=0",
    "all_gather_into_tensor": "Tensor x, int group",
    "reduce_scatter_tensor": 'Tensor x, int group, str op="sum"',
    "all_to_all_single": f"Tensor x, int group, {_SPLITS}",
}

_library = torch.library.Library("shmcoll", "DEF")  # the operators are there as long as it is


for _name, _arguments in (_IN_PLACE | _WITH_RESULT).items():
    _returned = "()" if _name in _IN_PLACE else "Tensor"
    _library.define(f"{_name}({_arguments}) -> {_returned}", tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(_name, getattr(kernels, _name), "CompositeExplicitAutograd")
for _name in _IN_PLACE:
    for _key in ("Autograd", "Conjugate", "Negative"):
        _library.impl(_name, torch.library.fallthrough_kernel, _key)
    torch.library.register_fake(f"shmcoll::{_name}", shapes.writing(_name), lib=_library)
for _name in _WITH_RESULT:
    torch.library.register_fake(f"shmcoll::{_name}", getattr(shapes, _name), lib=_library)
    _library.impl(_name, differentiable(_name, getattr(kernels, _name)), "Autograd")
