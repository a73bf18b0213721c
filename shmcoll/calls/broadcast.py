"""broadcast: its arguments and its call."""

from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.array_rules import check_apart, check_unmasked
from shmcoll.calls.arrays import deliver, exact, place_for
from shmcoll.calls.foreign_dtypes import move_and_spell, receive_array
from shmcoll.collectives.scatter import BOTH
from shmcoll.diagnostics.meant_call import with_objects
from shmcoll.engine.kernels.element_marks import element_mark
from shmcoll.runtime.dispatcher import Dispatcher


def broadcast(dispatcher: Dispatcher, x: Any, root: int) -> Any:
    place: np.ndarray | None = None
    with dispatcher.checking("broadcast") as check:
        root = given.as_root(root, dispatcher.size, *check)
        memory = x if isinstance(x, (list, tuple)) else given.as_memory(x)
        if dispatcher.rank == root:
            array = given.as_moved(x, *check)
        elif not _is_nothing(x):
            place = _as_place(memory, *check)
            array = place_for(place, place.shape, given.native(place.dtype))
    if dispatcher.rank != root and place is None:
        return deliver(receive_array(dispatcher, "broadcast", root), None)

    read, mark = exact(array), element_mark(array.dtype)
    target = None if dispatcher.rank == root else read

    def move() -> int:
        dispatcher.run("broadcast", read, target, 0, root, mark, 0, BOTH, 0, 0)
        return mark

    move_and_spell(dispatcher, "broadcast", root, move, (array.dtype, None) if mark else None)
    if place is not None:
        deliver(array, place)
        return x
    return x if isinstance(memory, np.ndarray) else deliver(array, None)


def _is_nothing(x: Any) -> bool:
    """Return whether x has no memory to write into, and no user would expect it to change: None, or a number."""
    return x is None or isinstance(x, (bool, int, float, complex, np.generic))


def _as_place(memory: Any, operation: str, rank: int) -> np.ndarray:
    """Return the array that a rank other than the root passes to be written. Raises `TypeError` or `ValueError` if it
    cannot be written."""
    if not isinstance(memory, np.ndarray):
        raise TypeError(
            f"{operation} on rank {rank}: x is written on all ranks except the root, and a {type(memory).__name__} "
            f"cannot be; pass an array, or None to get a new one; for Python objects use "
            f"{with_objects(operation)}"
        )
    check_unmasked(memory, "x", operation, rank)
    given.check_movable(memory, "x", operation, rank)
    if not memory.flags.writeable:
        raise TypeError(f"{operation} on rank {rank}: x is read-only; on all ranks except the root it is written")
    check_apart(memory, "x", operation, rank)
    return memory
