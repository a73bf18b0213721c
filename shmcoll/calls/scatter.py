"""scatter: its arguments and its call."""

from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import addresses, cut, deliver, exact, place_for, run_in_phases
from shmcoll.collectives.scatter import BOTH, DATA, OPEN
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_CODE, dtype_of

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def scatter(dispatcher: "Dispatcher", x: Any, root: int, out: Any) -> Any:
    with dispatcher.checking("scatter") as check:
        root = given.as_root(root, dispatcher.size, *check)
    if dispatcher.rank == root:
        return _send(dispatcher, x, root, out)
    with dispatcher.checking("scatter") as check:
        _check_receiver(x, root, out, *check)
    return _receive(dispatcher, root) if out is None else _receive_into(dispatcher, root, out)


# --- the root ---------------------------------------------------------------------------------------------------------


def _send(dispatcher: "Dispatcher", x: Any, root: int, out: Any) -> Any:
    size, listed = dispatcher.size, given.is_list_of_arrays(x)
    with dispatcher.checking("scatter") as check:
        if listed:
            parts = given.as_list(x, size, *check)
            first = parts[0]
        else:
            first = given.as_array(x, *check)
            given.check_divisible(first, 0, size, *check)
            parts = cut(first, size)
        own = parts[root]
        if out is not None:
            given.as_output(out, own.shape, own.dtype, *check)
            theirs = cut(x, size) if isinstance(x, np.ndarray) else x if listed else parts
            given.check_blocks(theirs, [None] * root + [out], *check)
    target = place_for(out, own.shape, own.dtype)
    table = addresses(parts)
    dispatcher.run("scatter", exact(first), target, 0, root, 0, 0, BOTH, table.ctypes.data if listed else 0, 0)
    return deliver(target, out)


# --- the others -------------------------------------------------------------------------------------------------------


def _check_receiver(x: Any, root: int, out: Any, operation: str, rank: int) -> None:
    if x is not None:
        raise TypeError(
            f"{operation} on rank {rank}: x must be None off the root, which is rank {root}; got {type(x).__name__}"
        )
    if out is not None:  # whether it fits what the root sends turns out when all have arrived
        shape, dtype = getattr(out, "shape", ()), getattr(out, "dtype", np.dtype(bool))
        given.as_output(out, shape, dtype, operation, rank)
        dtype_of(out, operation, rank)


def _receive_into(dispatcher: "Dispatcher", root: int, out: np.ndarray) -> np.ndarray:
    target = place_for(out, out.shape, out.dtype)
    dispatcher.run("scatter", target, target, 0, root, 0, 0, BOTH, 0, 0)
    return deliver(target, out)


def _receive(dispatcher: "Dispatcher", root: int) -> np.ndarray:
    """Receive in two phases: the shape is known after the opening."""
    routine = dispatcher.routine("scatter")
    shape_words = np.zeros(2 + layout.MOST_DIMENSIONS, np.int64)
    target = np.empty(0)

    def opening() -> int:
        return routine(None, None, 0, root, 0, 0, OPEN, 0, shape_words.ctypes.data)

    def moving() -> int:
        nonlocal target
        target = np.empty(shape_words[2 : 2 + shape_words[1]], BY_CODE[int(shape_words[0])].numpy)
        return routine(None, target, 0, root, 0, 0, DATA, 0, 0)

    run_in_phases(dispatcher, "scatter", opening, c.SHAPE_KNOWN, moving)
    return target
