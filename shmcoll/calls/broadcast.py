"""broadcast: its arguments and its call."""

from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.array_rules import check_apart, check_unmasked
from shmcoll.calls.arrays import deliver, exact, place_for

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def broadcast(dispatcher: "Dispatcher", x: Any, root: int) -> Any:
    with dispatcher.checking("broadcast") as check:
        root = given.as_root(root, dispatcher.size, *check)
        if dispatcher.rank != root:
            _check_writeable(x, *check)
        array = given.as_array(x, *check)
    if dispatcher.rank == root:
        dispatcher.run("broadcast", exact(array), None, 0, root, 0, 0, 0)
        return x if isinstance(x, np.ndarray) else array
    target = place_for(x, array.shape, array.dtype)
    dispatcher.run("broadcast", target, target, 0, root, 0, 0, 0)
    return deliver(target, x)


def _check_writeable(x: Any, operation: str, rank: int) -> None:
    if not isinstance(x, np.ndarray):
        raise TypeError(
            f"{operation} on rank {rank}: x must be a numpy array off the root, where it is written in place; "
            f"got {type(x).__name__}"
        )
    check_unmasked(x, "x", operation, rank)
    if not x.flags.writeable:
        raise TypeError(f"{operation} on rank {rank}: x is read-only; off the root it is written in place")
    check_apart(x, "x", operation, rank)
