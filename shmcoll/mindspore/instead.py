"""What a program of MindSpore itself gets instead of what our collectives cannot have. Each is said once.

Our collectives work in PyNative mode and on CPUs. So Graph mode becomes PyNative mode, and a device the CPU. A function
in `jit` is called as it is, because it may communicate in any call. MindSpore's own functions are compiled.

The modes in which MindSpore's graph compiler cuts tensors and inserts the collectives itself are refused: in PyNative
mode, every rank would compute the whole.
"""

import os
import sys
import warnings
from functools import wraps
from types import ModuleType
from typing import Any

from shmcoll.mindspore import data_parallel
from shmcoll.mindspore.context import GRAPH_MODE, PYNATIVE_MODE, ParallelMode

_DEVICES = ("Ascend", "Davinci", "GPU")
_said: set[str] = set()
_BY_THE_COMPILER = (ParallelMode.SEMI_AUTO_PARALLEL, ParallelMode.AUTO_PARALLEL)


def _instead(chosen: str, ours: str, value: Any) -> Any:
    say(f"{ours} instead of {chosen}, because its collectives work there", level=4)
    return value


def say(text: str, level: int = 2) -> None:
    """Warn, once, and on rank 0 alone where the launcher tells its number."""
    if text not in _said and os.environ.get("RANK", "0") == "0":
        _said.add(text)
        warnings.warn(f"shmcoll: {text}", stacklevel=level)


def of_context(module: ModuleType) -> None:
    """Change `mindspore.context`."""
    set_context, set_auto_parallel_context = module.set_context, module.set_auto_parallel_context

    @wraps(set_context)
    def set_mode_and_device(*args: Any, **kwargs: Any) -> None:
        if kwargs.get("mode") == GRAPH_MODE:
            kwargs["mode"] = _instead("Graph mode", "PyNative mode", PYNATIVE_MODE)
        if kwargs.get("device_target") in _DEVICES:
            kwargs["device_target"] = _instead(kwargs["device_target"], "the CPU", "CPU")
        set_context(*args, **kwargs)

    @wraps(set_auto_parallel_context)
    def set_parallel_mode(*args: Any, **kwargs: Any) -> None:
        if kwargs.get("parallel_mode") in _BY_THE_COMPILER:
            raise _needs_the_compiler(f"parallel_mode {kwargs['parallel_mode']!r}")
        set_auto_parallel_context(*args, **kwargs)
        if kwargs.get("parameter_broadcast"):
            data_parallel.broadcast_parameters_at_first()

    vars(module).update(set_context=set_mode_and_device, set_auto_parallel_context=set_parallel_mode)


def of_devices(module: ModuleType) -> None:
    """Change `mindspore.device_manager`."""
    theirs = module.set_device

    @wraps(theirs)
    def set_device(device_target: str, device_id: int | None = None) -> None:
        if device_target in _DEVICES:
            device_target = _instead(device_target, "the CPU", "CPU")
        theirs(device_target, device_id)

    vars(module).update(set_device=set_device)


def of_auto_parallel(module: ModuleType) -> None:
    """Change `mindspore.parallel.auto_parallel`."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        raise _needs_the_compiler("AutoParallel")

    module.AutoParallel.__init__ = __init__


def _needs_the_compiler(what: str) -> RuntimeError:
    return RuntimeError(
        f"shmcoll: {what} needs MindSpore's graph compiler, which does not know these collectives. Use "
        "ParallelMode.DATA_PARALLEL, or cut tensors yourself and call the operators of mindspore.ops in a group"
    )


def of_jit(module: ModuleType) -> None:
    """Change a module that has `jit`."""
    theirs = module.jit
    if hasattr(theirs, "__wrapped__"):  # it is changed already: the older path gets it from the newer one
        return

    @wraps(theirs)
    def jit(function: Any = None, **options: Any) -> Any:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("mindspore."):  # MindSpore's own function
            return theirs(function, **options)
        theirs(**options)  # it checks them
        _instead("jit", "PyNative mode", None)
        return function if function is not None else lambda one: one

    vars(module).update(jit=jit)
