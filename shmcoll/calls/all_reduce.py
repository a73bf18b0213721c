"""all_reduce: its arguments and its call."""

from typing import TYPE_CHECKING, Any

from shmcoll.calls import arguments as given
from shmcoll.calls.in_place import clear_of
from shmcoll.calls.operators import algorithm_for, as_operand, as_operator
from shmcoll.collectives.all_reduce import ALGORITHMS

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def all_reduce(dispatcher: "Dispatcher", x: Any, op: Any, out: Any, algorithm: str | None) -> Any:
    with dispatcher.checking("all_reduce") as check:
        array = as_operand(x, *check)
        operator = as_operator(dispatcher, op, array.dtype, check)
        number = algorithm_for(operator, algorithm, ALGORITHMS, check)
        if out is not None:
            given.as_output(out, array.shape, operator.dtype, *check)
            array = clear_of(array, out, array, out)
    target = operator.place_for(out, array.shape)
    operator.run(dispatcher, "all_reduce", operator.operand(array), target, 0, number)
    return operator.deliver(target, out)
