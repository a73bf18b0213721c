"""Torch's own collectives, made by the native entry of the operators, for groups that a program names.

Two doors lead to a collective of torch. The functions of `torch.distributed` are replaced as attributes of that module.
The functional collectives, which DTensor and compiled code call, are operators of torch: these get another kernel for
the CPU. A call that the native entry does not make goes to what was there before, and so does a call of another group,
an asynchronous one, and one that is traced by `torch.compile`.

A functional collective over this backend is otherwise an asynchronous call, which the worker makes. Here it has ended
when it returns, and waiting for its result has no effect. So the result is not wrapped, as torch wraps one that is to
be waited for, which takes ten times as long as the call.
"""

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._C import _len_torch_dispatch_stack

from shmcoll.engine import context as c
from shmcoll.torch.ops import kernels
from shmcoll.torch.ops.groups import handle

_numbers: dict[Any, int] = {}  # handles: by a torch group, and by its name
_undo: list[Callable[[], None]] = []
_finished = threading.local()  # the result of the last functional collective, until torch would wrap it

_SUM = dist.ReduceOp.SUM
_SUM_CODE = kernels.CODES["sum"]
_USUAL = {"group", "op"}  # arguments
_NAMES = {"product": "prod"}  # of operators, where torch's differ


def replace_collectives(group: Any = None) -> Callable[[], None]:
    """Have torch's own collectives of a group made as the operators `torch.ops.shmcoll` are. Not a collective.

    So a program that knows only torch, such as a model of transformers with `tp_plan="auto"`, makes short calls in a
    fraction of the time. It replaces `all_reduce`, `all_gather_into_tensor`, `reduce_scatter_tensor` and
    `all_to_all_single` of `torch.distributed`, where they are blocking and called as attributes of that module; and the
    functional collectives of these names and `broadcast`, in eager and in compiled code. All else is as before.

    All ranks of the group call it, or none.

    Args:
        group: a torch group of this backend; the default group if None. Call it again for further groups.

    Returns:
        A function that ends this for the group.

    Raises:
        TypeError: the group is not one of this backend.
        ValueError: the group has ended.

    Example:
        >>> undo = shmcoll.torch.replace_collectives()
        >>> dist.all_reduce(x)
        >>> undo()
    """
    number = handle(group)
    found = dist.distributed_c10d._get_default_group() if group is None else group
    if not _undo:
        _replace()
    keys = found, found.group_name
    _numbers.update(dict.fromkeys(keys, number))

    def undo() -> None:
        for key in keys:
            _numbers.pop(key, None)
        while _undo and not _numbers:
            _undo.pop()()

    return undo


def _replace() -> None:
    for name, make in _FUNCTIONS.items():
        original = getattr(dist, name, None)
        if original is not None:  # torch has had some names since 2.13
            _set(dist, name, make(original))
    _set(functional, "_maybe_wrap_tensor", _wrapping(functional._maybe_wrap_tensor))
    library = torch.library.Library("_c10d_functional", "IMPL")
    for name, make in _KERNELS.items():
        original = torch.library.get_kernel(f"_c10d_functional::{name}", "CPU")
        library.impl(name, make(original), "CPU", with_keyset=True)
    _undo.append(library._destroy)


def _set(module: Any, name: str, function: Callable[..., Any]) -> None:
    """Replace a function of a module."""
    original = getattr(module, name)
    setattr(module, name, functools.wraps(original)(function))
    _undo.append(functools.partial(setattr, module, name, original))


def _number(group: Any) -> int | None:
    """Return the handle of a torch group, or of one of this name; None if its collectives are not replaced."""
    return _numbers.get(dist.distributed_c10d._world.default_pg if group is None else group)


# --- functions --------------------------------------------------------------------------------------------------------


def _all_reduce(original: Any) -> Any:
    def call(*arguments: Any, **keywords: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(*arguments, **_for_compiler(keywords))
        if len(arguments) == 1 and (number := _plain(keywords)) is not None:
            (x,) = arguments
            if _is_made("all_reduce", kernels.ALL_REDUCE, x, x, number, _SUM_CODE, 0):
                return None
        return original(*arguments, **keywords)

    return call


def _with_output(name: str, operation: int, reduction: int = 0) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(*arguments, **_for_compiler(keywords))
            if len(arguments) == 2 and (number := _plain(keywords)) is not None:
                out, x = arguments
                fits = operation != kernels.ALL_TO_ALL or kernels.has_equal_blocks(x, out, number)
                if fits and _is_made(name, operation, x, out, number, reduction, 0, kernels.FLAT):
                    return None
            return original(*arguments, **keywords)

        return call

    return make


def _plain(keywords: dict[str, Any]) -> int | None:
    """Return the handle for a blocking call with these arguments besides tensors, if a sum is all that they ask for."""
    if keywords.keys() - _USUAL or keywords.get("op", _SUM) is not _SUM:
        return None
    return _number(keywords.get("group"))


def _for_compiler(keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments without the usual operator, which the compiler knows in a call of torch's own function
    only."""
    return {name: value for name, value in keywords.items() if name != "op" or value != _SUM}


def _is_made(name: str, operation: int, x: Any, out: Any, group: int, *words: int) -> bool:
    """Make a call if the native entry can. Raises the error of a call that has failed."""
    if type(out) is not torch.Tensor or (out.requires_grad and torch.is_grad_enabled()) or _len_torch_dispatch_stack():
        return False
    status = kernels.enter(operation, x, out, group, *words)
    if status in (c.NEEDS_PYTHON, c.BUSY):
        return False
    if status:
        kernels.checked(name, status, group, x, out)
    return True


_FUNCTIONS = {
    "all_reduce": _all_reduce,
    "all_to_all_single": _with_output("all_to_all_single", kernels.ALL_TO_ALL),
}
for _name in ("all_gather_into_tensor", "all_gather_single"):
    _FUNCTIONS[_name] = _with_output(_name, kernels.ALL_GATHER)
for _name in ("reduce_scatter_tensor", "reduce_scatter_single"):
    _FUNCTIONS[_name] = _with_output(_name, kernels.REDUCE_SCATTER, _SUM_CODE)


# --- functional collectives -------------------------------------------------------------------------------------------


def _kernel(call: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes the kernel from the one before. call: the call for the handle of a group."""

    def make(original: Any) -> Any:
        def kernel(keys: Any, *arguments: Any) -> Any:
            group = arguments[-1]
            number = _numbers.get(group if isinstance(group, str) else getattr(group, "group_name", None))
            _finished.result = _nothing
            made = call(number, *arguments[:-1]) if number is not None else NotImplemented
            if made is NotImplemented:
                return original.call_boxed(keys, *arguments)
            _finished.result = weakref.ref(made)
            return made

        return kernel

    return make


def _nothing() -> None:
    """Stand for a reference to a result that has to be waited for."""


def _wrapping(original: Any) -> Any:
    def wrap(tensor: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling() and getattr(_finished, "result", _nothing)() is tensor:
            return tensor
        wrapped: torch.Tensor = original(tensor)
        return wrapped

    return wrap


def _all_reduce_of(number: int, x: torch.Tensor, op: str) -> Any:
    op = _NAMES.get(op, op)
    return kernels.all_reduce(x, number, op) if op in kernels.OPERATORS else NotImplemented


def _all_reduce_in_place(number: int, x: torch.Tensor, op: str) -> Any:
    words = kernels.CODES.get(_NAMES.get(op, op), 0), 0
    return x if _is_made("all_reduce", kernels.ALL_REDUCE, x, x, number, *words) else NotImplemented


def _reduce_scatter_of(number: int, x: torch.Tensor, op: str, _size: int) -> Any:
    op = _NAMES.get(op, op)
    return kernels.reduce_scatter_tensor(x, number, op) if op in kernels.OPERATORS else NotImplemented


def _broadcast_in_place(number: int, x: torch.Tensor, root: int) -> Any:
    return x if _is_made("broadcast", kernels.BROADCAST, x, x, number, 0, root) else NotImplemented


_KERNELS = {
    "all_reduce": _kernel(_all_reduce_of),
    "all_reduce_": _kernel(_all_reduce_in_place),
    "all_gather_into_tensor": _kernel(lambda number, x, _size: kernels.all_gather_into_tensor(x, number)),
    "reduce_scatter_tensor": _kernel(_reduce_scatter_of),
    "all_to_all_single": _kernel(lambda number, x, *splits: kernels.all_to_all_single(x, number, *splits)),
    "broadcast": _kernel(lambda number, x, root: kernels.broadcast(x, number, root)),
    "broadcast_": _kernel(_broadcast_in_place),
}

__all__ = ["replace_collectives"]
