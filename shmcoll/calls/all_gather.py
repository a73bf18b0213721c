"""all_gather: its arguments and its call."""

from typing import TYPE_CHECKING, Any

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import addresses, cut, deliver, exact, place_for, whole_shape
from shmcoll.calls.common_dtype import agreeing, move
from shmcoll.calls.in_place import clear_of
from shmcoll.engine.kernels.element_marks import element_mark

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


@agreeing
def all_gather(dispatcher: "Dispatcher", x: Any, out: Any) -> Any:
    size, listed = dispatcher.size, isinstance(out, (list, tuple))
    with dispatcher.checking("all_gather") as check:
        array = given.as_moved(x, *check)
        whole = whole_shape(array.shape, size)
        if listed:
            targets = given.as_outputs(out, size, array.shape, array.dtype, *check)
        elif out is not None:
            parts = cut(given.as_output(out, whole, array.dtype, *check), size)
            targets = [part.reshape(array.shape) for part in parts]
        else:
            targets = []
        for rank, target in enumerate(targets):
            own = (array, target) if rank == dispatcher.rank else ()
            array = clear_of(array, target, *own)
        mark = element_mark(array.dtype)

    def run() -> Any:
        source = exact(array)
        if not listed:
            target = place_for(out, whole, array.dtype)
            dispatcher.run("all_gather", source, exact(target), 0, 0, mark, 0, 0)
            return deliver(target, out)
        places = [place_for(target, array.shape, array.dtype) for target in targets]
        table = addresses(places)
        dispatcher.run("all_gather", source, None, 0, 0, mark, 0, table.ctypes.data)
        for place, target in zip(places, targets, strict=True):
            deliver(place, target)
        return out

    return move(dispatcher, "all_gather", array.dtype, out, run)
