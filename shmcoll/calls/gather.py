"""gather: its arguments and its call."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import addresses, deliver, exact, place_for, whole_shape
from shmcoll.runtime.dispatcher import Dispatcher


def gather(dispatcher: Dispatcher, x: Any, root: int, out: Any) -> Any:
    size = dispatcher.size
    with dispatcher.checking("gather") as check:
        array = given.as_array(x, *check)
        root = given.as_root(root, size, *check)
        targets: list[np.ndarray] | None = None
        whole = whole_shape(array.shape, size)
        if dispatcher.rank == root and isinstance(out, (list, tuple)):
            targets = outputs_in_list(dispatcher, out, array, check)
        elif dispatcher.rank == root and out is not None:
            given.as_output(out, whole, array.dtype, *check)
            if given.overlap(array, out):
                array = array.copy()
    if dispatcher.rank != root:
        dispatcher.run("gather", exact(array), None, 0, root, 0, 0, 0)
        return None
    if targets is None:
        target = place_for(out, whole, array.dtype)
        dispatcher.run("gather", exact(array), target, 0, root, 0, 0, 0)
        return deliver(target, out)
    places = [place_for(t, t.shape, t.dtype) for t in targets]
    table = addresses(places)
    dispatcher.run("gather", exact(array), None, 0, root, 0, 0, table.ctypes.data)
    for place, one in zip(places, targets, strict=True):
        deliver(place, one)
    return out


def outputs_in_list(
    dispatcher: Dispatcher, out: Sequence[Any], array: np.ndarray, check: tuple[str, int]
) -> list[np.ndarray]:
    """n arrays like `array` to write into, apart from each other; the one of this rank may be `array` itself."""
    operation, rank = check
    if len(out) != dispatcher.size:
        raise ValueError(f"{operation} on rank {rank}: out is a list of {len(out)} arrays for {dispatcher.size} ranks")
    targets = [given.as_output(o, array.shape, array.dtype, operation, rank) for o in out]
    for i, one in enumerate(targets):
        if any(given.overlap(one, other) for other in targets[:i]):
            raise ValueError(f"{operation} on rank {rank}: array {i} of out overlaps one before it")
        if given.overlap(one, array) and not (i == dispatcher.rank and given.same_memory(one, array)):
            raise ValueError(f"{operation} on rank {rank}: array {i} of out overlaps x")
    return targets
