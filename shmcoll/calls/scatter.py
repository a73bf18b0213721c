"""scatter: its arguments and its call."""

from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import addresses, cut, deliver, exact, place_for
from shmcoll.calls.foreign_dtypes import move_and_spell, receive_array
from shmcoll.calls.in_place import all_clear_of, clear_of
from shmcoll.collectives.scatter import BOTH
from shmcoll.engine.kernels.element_marks import element_mark
from shmcoll.runtime.dispatcher import Dispatcher


def scatter(dispatcher: Dispatcher, x: Any, root: int, out: Any) -> Any:
    with dispatcher.checking("scatter") as check:
        root = given.as_root(root, dispatcher.size, *check)
    if dispatcher.rank == root:
        return _send(dispatcher, x, root, out)
    with dispatcher.checking("scatter") as check:
        if out is not None:  # whether it fits what the root sends is found when all ranks have arrived
            _check_out(out, *check)
    if out is None:
        return deliver(receive_array(dispatcher, "scatter", root), None)
    return _receive_into(dispatcher, root, out)


# --- the root ---------------------------------------------------------------------------------------------------------


def _send(dispatcher: Dispatcher, x: Any, root: int, out: Any) -> Any:
    size, listed = dispatcher.size, given.is_list_of_arrays(x)
    with dispatcher.checking("scatter") as check:
        if listed:
            parts = given.as_list(x, size, *check)
            first = parts[0]
        else:
            first = given.as_moved(x, *check)
            given.check_divisible(first, 0, size, *check)
            parts = cut(first, size)
        own = parts[root]
        if out is not None:
            given.as_output(out, own.shape, own.dtype, *check)
            if listed:
                parts = all_clear_of(parts, [None] * root + [out])
                first = parts[0]
            else:
                first = clear_of(first, out, own, out)
    target = place_for(out, own.shape, own.dtype)
    table = addresses(parts)
    _run(dispatcher, first, target, root, table.ctypes.data if listed else 0)
    return deliver(target, out)


# --- the others -------------------------------------------------------------------------------------------------------


def _check_out(out: Any, operation: str, rank: int) -> None:
    dtype = given.native(getattr(out, "dtype", np.dtype(bool)))
    given.as_output(out, getattr(out, "shape", ()), dtype, operation, rank)
    given.check_movable(out, "out", operation, rank)


def _receive_into(dispatcher: Dispatcher, root: int, out: np.ndarray) -> Any:
    target = place_for(out, out.shape, given.native(out.dtype))
    _run(dispatcher, target, target, root, 0)
    return deliver(target, out)


def _run(dispatcher: Dispatcher, x: np.ndarray, target: np.ndarray, root: int, table: int) -> None:
    """Run the routine on a rank with an array."""
    read, mark = exact(x), element_mark(x.dtype)
    written = read if x is target else exact(target)

    def move() -> int:
        dispatcher.run("scatter", read, written, 0, root, 0, 0, BOTH, table, mark)
        return mark

    move_and_spell(dispatcher, "scatter", root, move, (x.dtype, None) if mark else None)
