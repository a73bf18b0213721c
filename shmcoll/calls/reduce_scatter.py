"""reduce_scatter: its arguments and its call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import addresses, cut
from shmcoll.calls.in_place import all_clear_of, clear_of
from shmcoll.calls.operators import algorithm_for, as_operand, as_operator
from shmcoll.collectives.reduce_scatter import ALGORITHMS, EVEN, LISTED

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def reduce_scatter(dispatcher: "Dispatcher", x: Any, op: Any, out: Any, algorithm: str | None) -> Any:
    if given.is_list_of_arrays(x):
        return _reduce_list(dispatcher, x, op, out, algorithm)
    size = dispatcher.size
    with dispatcher.checking("reduce_scatter") as check:
        array = as_operand(x, *check)
        given.check_divisible(array, 0, size, *check)
        operator = as_operator(dispatcher, op, array.dtype, check)
        number = algorithm_for(operator, algorithm, ALGORITHMS, check)
        shape = (array.shape[0] // size, *array.shape[1:])
        if out is not None:
            given.as_output(out, shape, operator.dtype, *check)
            array = clear_of(array, out, cut(array, size)[dispatcher.rank], out)
    target = operator.place_for(out, shape)
    operator.run(dispatcher, "reduce_scatter", operator.operand(array), target, EVEN, number)
    return operator.deliver(target, out)


def _reduce_list(dispatcher: "Dispatcher", x: Sequence[Any], op: Any, out: Any, algorithm: str | None) -> Any:
    """Make the call for a list of n arrays, which are used in place."""
    with dispatcher.checking("reduce_scatter") as check:
        arrays = given.as_list(x, dispatcher.size, *check)
        own = as_operand(arrays[dispatcher.rank], *check)
        operator = as_operator(dispatcher, op, own.dtype, check)
        number = algorithm_for(operator, algorithm, ALGORITHMS, check)
        if out is not None:
            given.as_output(out, own.shape, operator.dtype, *check)
            arrays = all_clear_of(arrays, [out if r == dispatcher.rank else None for r in range(dispatcher.size)])
    target = operator.place_for(out, own.shape)
    sources = [operator.operand(array) for array in arrays]
    table = addresses(sources)
    operator.run(dispatcher, "reduce_scatter", sources[0], target, LISTED, number, table.ctypes.data)
    return operator.deliver(target, out)
