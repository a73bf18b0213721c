"""MindSpore itself with our communication: what `shmrun --mindspore` gives where MindSpore is installed.

MindSpore defines its communication in a few modules, and all its other modules import it from there. As soon as one of
these (`_SAME_PATH`, `_CHANGED`) has run, before another imports from it, our functions and operators take the place of
those of the same names. So every path of a program leads to ours, and MindSpore's own optimizers, samplers and
checkpoints find our groups and ranks. All else stays MindSpore's: tensors, layers, gradients.

How a collective and MindSpore meet (`memory`, `ops.gradients`): a call of an operator is that of a cell with a `bprop`,
which MindSpore's gradients ask in PyNative mode; functions read and write a tensor where its memory is.

`data_parallel` has what MindSpore's graph compiler does for data parallelism. `instead` has what a program gets that
chooses Graph mode, `jit` or a device.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from shmcoll.mindspore import data_parallel, instead
from shmcoll.mindspore.communication import GlobalComm
from shmcoll.mindspore.mint.distributed import is_initialized

#: how the versions begin that are tested
_TRIED = "2.10."

#: modules of MindSpore that get the public names of ours at the same path
_SAME_PATH = (
    "mindspore.communication.management",
    "mindspore.communication.comm_func",
    "mindspore.mint.distributed.distributed",
    "mindspore.ops.communication",
    "mindspore.ops.operations.comm_ops",
)


def install() -> MetaPathFinder:
    """Give our communication to MindSpore, which the program has not imported yet. Return the finder that does it."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    return finder


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
            try:
                change(module)
            except AttributeError as error:  # in another version
                instead.say(f"{module.__name__} stays as it is, because it has no {error.name!r}")
        else:
            ours = importlib.import_module(f"shmcoll.{module.__name__}")
            vars(module).update((name, getattr(ours, name)) for name in ours.__all__)

    def __getattr__(self, name: str) -> Any:  # `inspect` and `linecache` ask it for the source
        return getattr(self._theirs, name)


def _tell_of_version(module: ModuleType) -> None:
    version = getattr(module, "__version__", "of no version")
    if not version.startswith(_TRIED):
        instead.say(
            f"this is MindSpore {version}; if something fails, pip install 'mindspore=={_TRIED}0', which is tested"
        )


def _change_helpers(module: ModuleType) -> None:
    vars(module).update(GlobalComm=GlobalComm, _is_initialized=is_initialized)


def _change_reducer(module: ModuleType) -> None:
    module.DistributedGradReducer.construct = data_parallel.reduce_gradients


#: modules of MindSpore of which we change something else
_CHANGED: dict[str, Callable[[ModuleType], None]] = {
    "mindspore": _tell_of_version,
    "mindspore.common.api": instead.of_jit,
    "mindspore.communication._comm_helper": _change_helpers,
    "mindspore.context": instead.of_context,
    "mindspore.device_manager": instead.of_devices,
    "mindspore.graph.api": instead.of_jit,
    "mindspore.nn.wrap.grad_reducer": _change_reducer,
    "mindspore.parallel.auto_parallel": instead.of_auto_parallel,
}
