"""Helpers of all functions: lists of tensors, `priority`, the operator, and reductions of float8.

A call of one tensor is checked by the communicator. If that refuses it, the tensors are checked here as well, for an
error that names them as the user does: `dsts[0]`, not `out`. A coalesced call, or a reduction of float8, is checked
here first: all tensors before the first one moves.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.communicator import Communicator
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import shorten
from shmcoll.nki import language

Pairs = list[tuple[np.ndarray, np.ndarray]]

#: the operators of reductions, and the names that the communicator has for them
OPERATORS = {language.add: "sum", language.minimum: "min", language.maximum: "max"}
_BY_NAME = {function.__name__: name for function, name in OPERATORS.items()}

#: dtypes that are reduced in float32, with a number for each
FLOAT8 = {
    np.dtype(getattr(ml_dtypes, name)): number
    for number, name in enumerate(sorted(name for name in dir(ml_dtypes) if name.startswith("float8")), start=1)
}


def tensor_pairs(srcs: Any, dsts: Any, operation: str) -> Pairs:
    """Return the sources with their destinations, from two lists of equal length."""
    if type(srcs) is type(dsts) is list and len(srcs) == len(dsts) == 1:
        src, dst = srcs[0], dsts[0]
        if type(src) is type(dst) is np.ndarray:  # the common call
            return [(src, dst)]
    for tensors, name in ((srcs, "srcs"), (dsts, "dsts")):
        if not isinstance(tensors, (list, tuple)):
            raise TypeError(
                f"{operation}: {name} must be a list of arrays, got {type(tensors).__name__}; write {name}=[x]"
            )
        for i, tensor in enumerate(tensors):
            _check_array(tensor, f"{name}[{i}]", operation)
    if len(srcs) != len(dsts) or not srcs:
        raise ValueError(
            f"{operation}: srcs and dsts must hold one or more arrays each, and equally many; "
            f"got {len(srcs)} and {len(dsts)}"
        )
    return list(zip(srcs, dsts, strict=True))


def only_tensor(tensors: Any, name: str, operation: str) -> np.ndarray:
    """Return the one array of a list."""
    if type(tensors) is list and len(tensors) == 1 and type(tensors[0]) is np.ndarray:  # the common call
        return tensors[0]
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{operation}: {name} must be a list of one array, got {type(tensors).__name__}; write [x] for an array x"
        )
    if len(tensors) != 1:
        raise ValueError(
            f"{operation}: {name} must hold exactly one array, got {len(tensors)}; make a call for each array"
        )
    _check_array(tensors[0], f"{name}[0]", operation)
    only: np.ndarray = tensors[0]
    return only


def _check_array(tensor: Any, name: str, operation: str) -> None:
    """Raise `TypeError` unless this is an array of numpy."""
    if not isinstance(tensor, np.ndarray):
        raise TypeError(
            f"{operation}: {name} must be a numpy array, got {type(tensor).__name__}; a tensor of another library "
            f"shares its memory as tensor.numpy() or np.from_dlpack(tensor)"
        )


def only_pair(srcs: Any, dsts: Any, operation: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the one source and the one destination."""
    if type(srcs) is list and type(dsts) is list and len(srcs) == 1 and len(dsts) == 1:
        (src,), (dst,) = srcs, dsts
        if type(src) is np.ndarray and type(dst) is np.ndarray:  # the common call
            return src, dst
    return only_tensor(srcs, "srcs", operation), only_tensor(dsts, "dsts", operation)


def check_priority(priority: Any, operation: str) -> None:
    """Raise `ValueError` unless it is an integer from 0 to 3. None is not passed here."""
    if type(priority) is int and 0 <= priority <= 3:  # the common call
        return
    if not isinstance(priority, np.integer) or not 0 <= priority <= 3:
        raise ValueError(f"{operation}: priority must be 0, 1, 2, 3 or None, got {shown(priority)}")


def reduction(op: Any, operation: str) -> str:
    """Return the communicator's name of an operator: `nl.add`, `nl.minimum` or `nl.maximum`, also NKI's own."""
    try:
        return OPERATORS[op]
    except (KeyError, TypeError):
        pass
    module, name = getattr(op, "__module__", None), getattr(op, "__name__", None)
    if str(module).startswith("nki.") and name in _BY_NAME:
        return _BY_NAME[name]
    raise TypeError(f"{operation}: op must be nl.add, nl.minimum or nl.maximum, got {shown(op)}")


def check_tensors(
    pairs: Pairs,
    shape: Callable[[np.ndarray], tuple[int, ...]],
    operation: str,
    comm: Communicator,
    *,
    is_split: bool = False,
    reduces: bool = False,
    names: tuple[str, str] = ("srcs[{}]", "dsts[{}]"),
) -> None:
    """Raise the error of the first tensor that a call cannot take.

    Args:
        pairs: the sources with their destinations.
        shape: a function that returns the shape of the result of a source.
        operation: the name of the call.
        comm: where it runs.
        is_split: the sources are split along axis 0 among the ranks.
        reduces: the call reduces.
        names: what the user calls a source and a destination, with {} for its number.
    """
    check = operation, rank_in_words(comm)
    for i, (src, dst) in enumerate(pairs):
        name, result = (text.format(i) for text in names)
        if type(src) is not np.ndarray or src.dtype not in BY_NUMPY:
            (given.as_array if reduces and src.dtype not in FLOAT8 else given.as_moved)(src, *check, name)
        if is_split:
            given.check_divisible(src, 0, comm.size, *check, name)
        given.as_output(dst, shape(src), src.dtype, *check, result)


def in_our_words(error: Exception, check: Callable[..., None], *arguments: Any) -> Exception:
    """Return what `check(*arguments)` raises about a call that was refused, or else the error of that call."""
    try:
        check(*arguments)
    except (TypeError, ValueError) as told:
        shorten(told)
        return told
    return error


def rank_in_words(comm: Communicator) -> Any:
    """Return this rank as the messages of the communicator name it."""
    return comm.rank if comm.name == "world" else f"{comm.rank} (world rank {comm.ranks[comm.rank]})"


def reduce_float8(call: Callable[..., Any], src: np.ndarray, dst: np.ndarray, operator: str) -> None:
    """Make a reducing call of the communicator in float32, and round the results once.

    The arrays get as many more axes of length 1 as the number of the dtype. So ranks that pass different dtypes pass
    different shapes, which is a mismatch.
    """
    axes = (1,) * FLOAT8[src.dtype]
    result = np.empty(dst.shape, np.float32)
    call(src.astype(np.float32).reshape(src.shape + axes), operator, out=result.reshape(dst.shape + axes))
    dst[...] = result
