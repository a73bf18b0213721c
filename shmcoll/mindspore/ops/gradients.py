"""Gradients for MindSpore's own tensors, in PyNative mode.

MindSpore asks a cell that has a method `bprop` for the gradient of its inputs. So a call of an operator is the call of
a cell while MindSpore records a gradient. The class of these cells is made then, because this package never imports
MindSpore.

A gradient is that of the sum, over all ranks, of the functions that they differentiate. So the backward pass calls
collectives too, and all ranks of the group take part in it.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from shmcoll.mindspore import arrays
from shmcoll.mindspore.memory import memory_of

#: for each class of operators, a function from the operator, its tensors, the result, the gradient of the result and
#: the arguments of the call to the gradient of the tensor, or a tuple with that of each. `adjoints` fills it.
BY_OPERATOR: dict[type, Callable[..., Any]] = {}


def recorded(operator: Any, forward: Callable[..., Any], tensors: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
    """Call an operator on MindSpore's own tensors, so that they have gradients.

    Args:
        operator: its class is in `BY_OPERATOR`.
        forward: from the tensors as plain arrays, and the arguments, to an array or a tuple of arrays.
        tensors: MindSpore's own.
        arguments: the other arguments of the call.

    Returns:
        MindSpore's own tensor, or a tuple of them.
    """
    if not arrays.records_gradients():  # as `Cell.__call__` asks; it takes longer
        return _result(forward, tensors, arguments)
    cell = operator.cell
    if cell is None or arguments:
        cell = _cell_class()(operator, forward, arguments)
    if not arguments:
        operator.cell = cell
    return cell(*tensors)


def _result(forward: Callable[..., Any], tensors: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
    result = forward(*map(memory_of, tensors), *arguments)  # it only reads them
    if isinstance(result, tuple):
        return tuple(arrays.like(tensors[0], one) for one in result)
    return arrays.like(tensors[0], result)


@cache
def _cell_class() -> Any:
    nn = sys.modules["mindspore"].nn

    class Recorded(nn.Cell):  # type: ignore[misc, name-defined]
        def __init__(self, operator: Any, forward: Callable[..., Any], arguments: tuple[Any, ...]):
            super().__init__()
            self.operator, self.forward, self.arguments = operator, forward, arguments

        def construct(self, *tensors: Any) -> Any:
            return _result(self.forward, tensors, self.arguments)

        def bprop(self, *known: Any) -> tuple[Any, ...]:
            *tensors, out, gradient = known
            if isinstance(out, tuple) and not isinstance(gradient, tuple):  # MindSpore unpacks a tuple of one
                gradient = (gradient,)
            found = BY_OPERATOR[type(self.operator)](self.operator, tensors, out, gradient, *self.arguments)
            return found if isinstance(found, tuple) else (found,)

    return Recorded
