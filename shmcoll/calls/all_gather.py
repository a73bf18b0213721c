"""all_gather: its arguments and its call."""

from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import addresses, cut, deliver, exact, place_for, whole_shape

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def all_gather(dispatcher: "Dispatcher", x: Any, out: Any) -> Any:
    size, listed = dispatcher.size, isinstance(out, (list, tuple))
    with dispatcher.checking("all_gather") as check:
        array = given.as_array(x, *check)
        whole = whole_shape(array.shape, size)
        if listed:
            targets = given.as_outputs(out, size, array.shape, array.dtype, *check)
        elif out is not None:
            parts = cut(given.as_output(out, whole, array.dtype, *check), size)
            targets = [part.reshape(array.shape) for part in parts]
        else:
            targets = []
        mine = x if isinstance(x, np.ndarray) else array
        given.check_blocks([None] * dispatcher.rank + [mine], targets, *check)
    if not listed:
        target = place_for(out, whole, array.dtype)
        dispatcher.run("all_gather", exact(array), target, 0, 0, 0, 0, 0)
        return deliver(target, out)
    places = [place_for(target, array.shape, array.dtype) for target in targets]
    table = addresses(places)
    dispatcher.run("all_gather", exact(array), None, 0, 0, 0, 0, table.ctypes.data)
    for place, target in zip(places, targets, strict=True):
        deliver(place, target)
    return out
