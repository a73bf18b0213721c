"""reduce: its arguments and its call."""

from typing import TYPE_CHECKING, Any

from shmcoll.calls import arguments as given
from shmcoll.calls.in_place import clear_of
from shmcoll.calls.operators import algorithm_for, as_operand, as_operator
from shmcoll.collectives.reduce import ALGORITHMS

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def reduce(dispatcher: "Dispatcher", x: Any, root: int, op: Any, out: Any, algorithm: str | None) -> Any:
    with dispatcher.checking("reduce") as check:
        array = as_operand(x, *check)
        root = given.as_root(root, dispatcher.size, *check)
        operator = as_operator(dispatcher, op, array.dtype, check)
        number = algorithm_for(operator, algorithm, ALGORITHMS, check)
        if dispatcher.rank == root and out is not None:
            given.as_output(out, array.shape, operator.dtype, *check)
            array = clear_of(array, out, array, out)
    target = operator.place_for(out, array.shape) if dispatcher.rank == root else None
    operator.run(dispatcher, "reduce", operator.operand(array), target, root, number)
    return None if target is None else operator.deliver(target, out)
