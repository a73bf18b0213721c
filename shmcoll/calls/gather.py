"""all_gather and gather: their arguments and their calls."""

from typing import Any

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import Results, exact
from shmcoll.calls.common_dtype import agreeing, move
from shmcoll.calls.in_place import clear_of
from shmcoll.engine.kernels.element_marks import element_mark
from shmcoll.runtime.dispatcher import Dispatcher


@agreeing
def all_gather(dispatcher: Dispatcher, x: Any, out: Any) -> Any:
    return _gather(dispatcher, "all_gather", x, out)


@agreeing
def gather(dispatcher: Dispatcher, x: Any, root: int, out: Any) -> Any:
    with dispatcher.checking("gather") as check:
        root = given.as_root(root, dispatcher.size, *check)
    return _gather(dispatcher, "gather", x, out, root, gets=dispatcher.rank == root)


def _gather(dispatcher: Dispatcher, operation: str, x: Any, out: Any, root: int = 0, *, gets: bool = True) -> Any:
    """Make the call. gets: whether this rank gets the result, an array or a list."""
    with dispatcher.checking(operation) as check:
        array = given.as_moved(x, *check)
        results = Results(out if gets else None, dispatcher.size, array.shape, array.dtype, check)
        for rank, target in enumerate(results.targets):
            array = clear_of(array, target, *((array, target) if rank == dispatcher.rank else ()))
        mark = element_mark(array.dtype)

    def run() -> Any:
        if not gets:
            dispatcher.run(operation, exact(array), None, 0, root, mark, 0, 0)
            return None
        whole, table = results.place()
        address = table.ctypes.data if results.is_listed else 0
        dispatcher.run(operation, exact(array), whole, 0, root, mark, 0, address)
        return results.deliver()

    return move(dispatcher, operation, array.dtype, out if gets else None, run)
