"""What the reducing calls share: the operator that the user names, and the arrays that it works on.

    array = as_operand(x, *check)
    operator = as_operator(dispatcher, op, array.dtype, check)
    number = algorithm_for(operator, algorithm, ALGORITHMS, check)
    target = operator.place_for(out, shape)
    operator.run(dispatcher, name, operator.operand(array), target, argument, number)
    return operator.deliver(target, out)

All except the last three lines are within `with dispatcher.checking(name) as check`. `operator.dtype` is the dtype of
the result, for `as_output`; the routine may see another dtype (`operator.works_on`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls import arrays
from shmcoll.calls.array_rules import check_unmasked
from shmcoll.engine.compiler.user_operators import Op, PremulSum
from shmcoll.engine.kernels.dtypes import BY_NUMPY, PREMUL_SUM, REDUCTION_NAMES, REDUCTIONS, USER, pair_dtype
from shmcoll.runtime.dispatcher import Dispatcher


class Operator(NamedTuple):
    """A reduction of arrays of one dtype, ready to run."""

    reduction: int  # its code
    identity: int  # what else must be equal on all ranks, in ARGUMENT_2: the function; the dtype of multiples
    kernel: int  # address
    ordered: int  # 1: not commutative, so the order of ranks matters
    dtype: np.dtype  # dtype of operands and results, as the user has them
    works_on: np.dtype  # dtype of operands and results, as the routine has them
    prepare: Callable[[np.ndarray], np.ndarray] | None = None  # converts operands from the first to the second

    def operand(self, array: np.ndarray) -> np.ndarray:
        """Return the array that the routine reads for an operand."""
        return arrays.exact(array if self.prepare is None else self.prepare(array))

    def place_for(self, out: Any, shape: Sequence[int]) -> np.ndarray:
        """Return the array into which the routine writes the result: `out` itself if that is possible."""
        return arrays.place_for(out if self.dtype == self.works_on else None, shape, self.works_on)

    def run(
        self,
        dispatcher: Dispatcher,
        operation: str,
        operand: np.ndarray,
        target: np.ndarray | None,
        argument: int,
        algorithm: int = 0,
        sources: int = 0,
        routine: str | None = None,
    ) -> None:
        """Run the routine of a reducing collective.

        argument: its ARGUMENT. sources: the address of a table that replaces `operand`, or 0. routine: the collective
        that owns the routine, if it has another name.
        """
        kind, identity, kernel, ordered = self.reduction, self.identity, self.kernel, self.ordered
        arguments = operand, target, kind, argument, identity, algorithm, kernel, ordered, sources
        if routine is None:
            dispatcher.run(operation, *arguments)
        else:
            dispatcher.complete(operation, dispatcher.routine(routine), arguments)

    def deliver(self, target: np.ndarray, out: Any) -> Any:
        """Return the result: copy it to `out` if the routine had to write elsewhere."""
        if self.dtype != self.works_on:
            target = target.astype(self.dtype)
        return arrays.deliver(target, out)


def as_operand(x: Any, operation: str, rank: int) -> np.ndarray:
    """Return `x` as an array that can be reduced. Raise `TypeError` if it is not an array.

    Pairs of value and index in another layout than that of `pair_dtype` are returned unchanged.
    """
    check_unmasked(x, "x", operation, rank)
    array = x if isinstance(x, np.ndarray) else given.as_array(x, operation, rank)
    return array if _pairs_like(array.dtype) else given.as_array(x, operation, rank)


def as_operator(dispatcher: Dispatcher, op: Any, dtype: np.dtype, check: tuple[str, int]) -> Operator:
    """Return the operator that `op` names for arrays of a dtype. Compiles or loads its kernel.

    Raises `TypeError` if the dtype has no such reduction or a user's function does not compile for it, and `ValueError`
    for an unknown name.
    """
    if isinstance(op, (Op, PremulSum)):
        try:
            return _function(dispatcher, op, dtype) if isinstance(op, Op) else _multiples(dispatcher, op, dtype)
        except TypeError as e:
            operation, rank = check
            raise TypeError(f"{operation} on rank {rank}: {e}") from e
    works_on = _pairs_like(dtype) or dtype
    known = BY_NUMPY[works_on]
    reduction = given.as_reduction(op, known, *check)
    kernel = dispatcher.kernel(known, REDUCTION_NAMES[reduction], reduction)
    prepare = None if works_on == dtype else lambda array: array.astype(works_on, order="C")
    return Operator(reduction, 0, kernel, 0, dtype, works_on, prepare)


def _function(dispatcher: Dispatcher, op: Op, dtype: np.dtype) -> Operator:
    with dispatcher.local_rank.compiling():
        kernel = op.kernel(BY_NUMPY[_pairs_like(dtype) or dtype])
    return Operator(USER, op.identity, kernel, int(not op.commutative), dtype, dtype)


def _multiples(dispatcher: Dispatcher, op: PremulSum, dtype: np.dtype) -> Operator:
    """Return the operator that makes the multiples here and sums them as they are: in float32 if x is of a half
    type."""
    known = BY_NUMPY[_pairs_like(dtype) or dtype]
    op.check(known)
    wide = BY_NUMPY[known.accumulator]
    kernel = dispatcher.kernel(wide, "sum", REDUCTIONS["sum"])
    return Operator(PREMUL_SUM, known.code, kernel, 0, dtype, wide.numpy, lambda array: op.times(array, known))


def _pairs_like(dtype: np.dtype) -> np.dtype | None:
    """Return the `pair_dtype` that holds the pairs of a structured dtype; None for `pair_dtype` itself, and for other
    dtypes.

    Its first field is the value, its second an int32 or int64 index, whatever they are called.
    """
    if dtype.names is None or len(dtype.names) != 2 or dtype in BY_NUMPY:
        return None
    value, index = (dtype[name].newbyteorder("=") for name in dtype.names)
    if index not in (np.dtype(np.int32), np.dtype(np.int64)) or dtype.names[0] == "index":
        return None
    try:
        return pair_dtype(value)
    except TypeError:
        return None


def algorithm_for(operator: Operator, name: Any, algorithms: tuple[str, ...], check: tuple[str, int]) -> int:
    """Return the number of an algorithm, 0 for None. Raises `ValueError` for one that does not keep the order that the
    operator needs."""
    number = given.as_algorithm(name, algorithms, *check)
    if operator.ordered and name == "ring":
        operation, rank = check
        raise ValueError(
            f"{operation} on rank {rank}: the ring starts each slice with another rank and cannot run an operator "
            f"that is not commutative; leave algorithm out"
        )
    return number
