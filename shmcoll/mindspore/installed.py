"""MindSpore itself with our communication: what `shmrun --mindspore` gives where MindSpore is installed.

MindSpore defines its communication in a few modules, and all its other modules import it from there. As soon as one of
these (`_SAME_PATH`, `_CHANGED`) has run, before another imports from it, our functions and operators take the place of
those of the same names. So every path of a program leads to ours, and MindSpore's own optimizers, samplers and
checkpoints find our groups and ranks. All else stays MindSpore's: tensors, layers, gradients.

How a collective and MindSpore meet (`memory`, `ops.gradients`): a call of an operator is that of a cell with a `bprop`,
which MindSpore's gradients ask in PyNative mode; functions read and write a tensor where its memory is.

`DistributedGradReducer` compiles its `construct`, also in PyNative mode, and no compiler takes our operators.
`_reduce_gradients` takes its place. A program that chooses Graph mode gets PyNative mode, and one that chooses a device
gets the CPU, with a warning, because our collectives work there.
"""

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from shmcoll.mindspore.communication import GlobalComm
from shmcoll.mindspore.context import GRAPH_MODE, PYNATIVE_MODE
from shmcoll.mindspore.mint.distributed import is_initialized

#: modules of MindSpore that get the public names of ours at the same path
_SAME_PATH = (
    "mindspore.communication.management",
    "mindspore.communication.comm_func",
    "mindspore.mint.distributed.distributed",
    "mindspore.ops.communication",
    "mindspore.ops.operations.comm_ops",
)


def install() -> None:
    """Give our communication to MindSpore, which the program has not imported yet."""
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _SAME_PATH and fullname not in _CHANGED:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Runs a module as MindSpore's loader does, and then gives it what is ours."""

    def __init__(self, theirs: Loader):
        self._theirs = theirs

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._theirs.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._theirs.exec_module(module)
        if change := _CHANGED.get(module.__name__):
            change(module)
        else:
            ours = importlib.import_module(f"shmcoll.{module.__name__}")
            vars(module).update((name, getattr(ours, name)) for name in ours.__all__)

    def __getattr__(self, name: str) -> Any:  # `inspect` and `linecache` ask it for the source
        return getattr(self._theirs, name)


def _change_helpers(module: ModuleType) -> None:
    vars(module).update(GlobalComm=GlobalComm, _is_initialized=is_initialized)


def _change_reducer(module: ModuleType) -> None:
    module.DistributedGradReducer.construct = _reduce_gradients


def _change_context(module: ModuleType) -> None:
    theirs = module.set_context

    @wraps(theirs)
    def set_context(*args: Any, **settings: Any) -> None:
        if settings.get("mode") == GRAPH_MODE:
            settings["mode"] = _instead("Graph mode", "PyNative mode", PYNATIVE_MODE)
        if settings.get("device_target") in _DEVICES:
            settings["device_target"] = _instead(settings["device_target"], "the CPU", "CPU")
        theirs(*args, **settings)

    vars(module).update(set_context=set_context)


def _change_device(module: ModuleType) -> None:
    theirs = module.set_device

    @wraps(theirs)
    def set_device(device_target: str, device_id: int | None = None) -> None:
        if device_target in _DEVICES:
            device_target = _instead(device_target, "the CPU", "CPU")
        theirs(device_target, device_id)

    vars(module).update(set_device=set_device)


_DEVICES = ("Ascend", "GPU")


def _instead(chosen: str, ours: str, value: Any) -> Any:
    warnings.warn(f"shmcoll: {ours} instead of {chosen}, because its collectives work there", stacklevel=3)
    return value


def _reduce_gradients(self: Any, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Add up, as float32, the gradients that belong to all ranks, as `DistributedGradReducer.construct`."""
    mindspore = sys.modules["mindspore"]
    rows_class = mindspore.common.sparse_tensor.RowTensorInner
    operators = self.op_list if self.split_fusion else (self.allreduce,) * len(grads)

    def reduced(operator: Any, shared: bool, grad: Any) -> Any:
        if not shared:
            return grad
        if isinstance(grad, rows_class):  # a sparse one: the rows of all ranks
            rows = reduced(self.allgather, shared, grad.values)
            return rows_class(self.allgather(grad.indices), rows, grad.dense_shape)
        total = operator(grad.astype(mindspore.float32))
        return (total * self.degree if self.mean else total).astype(grad.dtype)

    return tuple(map(reduced, operators, self.allreduce_filter, grads))


#: modules of MindSpore of which we change something else
_CHANGED: dict[str, Callable[[ModuleType], None]] = {
    "mindspore.communication._comm_helper": _change_helpers,
    "mindspore.context": _change_context,
    "mindspore.device_manager": _change_device,
    "mindspore.nn.wrap.grad_reducer": _change_reducer,
}
