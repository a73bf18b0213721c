"""gather: its arguments and its call."""

from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import addresses, cut, deliver, exact, place_for, whole_shape
from shmcoll.calls.common_dtype import agreeing, move
from shmcoll.calls.in_place import clear_of
from shmcoll.engine.kernels.element_marks import element_mark
from shmcoll.runtime.dispatcher import Dispatcher


@agreeing
def gather(dispatcher: Dispatcher, x: Any, root: int, out: Any) -> Any:
    size = dispatcher.size
    with dispatcher.checking("gather") as check:
        array = given.as_moved(x, *check)
        root = given.as_root(root, size, *check)
        targets: list[np.ndarray] | None = None
        whole = whole_shape(array.shape, size)
        if dispatcher.rank == root and isinstance(out, (list, tuple)):
            targets = given.as_outputs(out, size, array.shape, array.dtype, *check)
            for rank, one in enumerate(targets):
                array = clear_of(array, one, *((array, one) if rank == root else ()))
        elif dispatcher.rank == root and out is not None:
            given.as_output(out, whole, array.dtype, *check)
            array = clear_of(array, out, array, cut(out, size)[root].reshape(array.shape))
        mark = element_mark(array.dtype)

    def run() -> Any:
        if dispatcher.rank != root:
            dispatcher.run("gather", exact(array), None, 0, root, mark, 0, 0)
            return None
        if targets is None:
            target = place_for(out, whole, array.dtype)
            dispatcher.run("gather", exact(array), exact(target), 0, root, mark, 0, 0)
            return deliver(target, out)
        places = [place_for(t, t.shape, t.dtype) for t in targets]
        table = addresses(places)
        dispatcher.run("gather", exact(array), None, 0, root, mark, 0, table.ctypes.data)
        for place, one in zip(places, targets, strict=True):
            deliver(place, one)
        return out

    return move(dispatcher, "gather", array.dtype, out if dispatcher.rank == root else None, run)
