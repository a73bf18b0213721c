"""scan: its arguments and its call."""

from typing import TYPE_CHECKING, Any

from shmcoll.calls import arguments as given
from shmcoll.calls.in_place import clear_of
from shmcoll.calls.operators import algorithm_for, as_operand, as_operator
from shmcoll.collectives.prefix_reduction import ALGORITHMS
from shmcoll.engine.kernels.dtypes import REDUCTIONS

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def scan(dispatcher: "Dispatcher", x: Any, op: Any, out: Any, algorithm: str | None) -> Any:
    return running(dispatcher, "scan", True, x, op, out, algorithm)


def running(
    dispatcher: "Dispatcher", operation: str, has_result: bool, x: Any, op: Any, out: Any, algorithm: str | None
) -> Any:
    """Make the call of scan or exscan. has_result: whether this rank gets a result."""
    with dispatcher.checking(operation) as check:
        array = as_operand(x, *check)
        operator = as_operator(dispatcher, op, array.dtype, check)
        if operator.reduction == REDUCTIONS["avg"]:
            raise ValueError(f"{operation} on rank {check[1]}: avg has no running form; use sum, and divide")
        number = algorithm_for(operator, algorithm, ALGORITHMS, check)
        if has_result and out is not None:
            given.as_output(out, array.shape, operator.dtype, *check)
            array = clear_of(array, out, array, out)
    target = operator.place_for(out, array.shape) if has_result else None
    operator.run(dispatcher, operation, operator.operand(array), target, 0, number)
    return None if target is None else operator.deliver(target, out)
