"""reduce_scatter: its arguments and its call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import addresses
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
            _check_overlap(dispatcher, np.split(x if isinstance(x, np.ndarray) else array, size), out, *check)
    target = operator.place_for(out, shape)
    operator.run(dispatcher, "reduce_scatter", operator.operand(array), target, EVEN, number)
    return operator.deliver(target, out)


def _reduce_list(dispatcher: "Dispatcher", x: Sequence[Any], op: Any, out: Any, algorithm: str | None) -> Any:
    """For n arrays in place of one: they stay where they are."""
    with dispatcher.checking("reduce_scatter") as check:
        arrays = given.as_list(x, dispatcher.size, *check)
        own = arrays[dispatcher.rank]
        operator = as_operator(dispatcher, op, own.dtype, check)
        number = algorithm_for(operator, algorithm, ALGORITHMS, check)
        if out is not None:
            given.as_output(out, own.shape, operator.dtype, *check)
            _check_overlap(dispatcher, arrays, out, *check)
    target = operator.place_for(out, own.shape)
    sources = [operator.operand(array) for array in arrays]
    table = addresses(sources)
    operator.run(dispatcher, "reduce_scatter", sources[0], target, LISTED, number, table.ctypes.data)
    return operator.deliver(target, out)


def _check_overlap(
    dispatcher: "Dispatcher", blocks: Sequence[np.ndarray], out: np.ndarray, operation: str, rank: int
) -> None:
    """`out` may be this rank's own block of x, and share memory with no other."""
    outs = [out if r == dispatcher.rank else None for r in range(dispatcher.size)]
    given.check_blocks(blocks, outs, operation, rank)
