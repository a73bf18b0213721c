"""Reductions of objects as methods of a communicator.

One rank gathers the objects, combines them in rank order, and sends out the result. So all ranks get the same result,
whatever the operator does, and the operator need be neither associative nor commutative. If the operator raises an
exception on that rank, the exception is sent out in place of the result, and every rank raises `OperatorFailed`.

Where the operator of that rank is one of Python's own, and all objects are numbers, each rank computes the
same result from the same pickles, and nothing is sent out. The ranks decide by what all of them have gathered: the row
of that rank says which operator it has passed. If the operator raises, all of them go the other way.

Where that operator is `operator.add`, and all objects are arrays of numpy of one shape and dtype, the ranks sum these
by an `all_reduce`: of integers, and of floats on two ranks, every order of additions gives the same bits. numpy may
warn or raise if a sum is infinite or no number. All ranks get the same sums, so all see that, and go the other way.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import accumulate, islice
from types import BuiltinFunctionType
from typing import Any, Literal, NoReturn, cast, overload

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.pickling import Packed, Received, loaded, packed
from shmcoll.communicator.object_rows import More
from shmcoll.communicator.objects import Objects, Parts
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import shorten
from shmcoll.errors import OperatorFailed
from shmcoll.runtime import user_code
from shmcoll.runtime.work import Work

ObjectOperator = Callable[[Any, Any], Any]

#: operators, by their numbers in rows from 1 on, and types for which they give the same result on all ranks
_OPERATORS: tuple[ObjectOperator, ...] = operator.add, operator.mul, max, min, operator.and_, operator.or_, operator.xor
_NUMBERS = {op: i for i, op in enumerate(_OPERATORS, 1)}
_SIMPLE = frozenset((int, float, complex, bool))
_INTEGERS, _FLOATS = frozenset("bBhHiIlLqQ"), frozenset("fd")  # dtypes of arrays that are added
_ARRAY = 1 << 8  # in what a rank passes beside the number: its object is such an array


class ObjectReductions(Objects):
    """The methods of every communicator that reduce objects."""

    @overload
    def reduce_object(
        self, value: Any, op: ObjectOperator = ..., root: int = ..., *, async_op: Literal[False] = ...
    ) -> Any: ...
    @overload
    def reduce_object(
        self, value: Any, op: ObjectOperator = ..., root: int = ..., *, async_op: Literal[True]
    ) -> Work[Any]: ...
    def reduce_object(
        self, value: Any, op: ObjectOperator = operator.add, root: int = 0, *, async_op: bool = False
    ) -> Any:
        """Combine the objects of all ranks on rank `root`.

        Only the root computes: `op(op(v0, v1), v2)` and so on, in rank order. If `op` there is one of Python's own and
        all objects are numbers, every rank does.

        Cost: as `gather_object`; and one broadcast of 512 bytes, which says whether the operator has raised, unless
        every rank computes. Sums of arrays: as `all_reduce_object`.

        Args:
            value: anything that can be pickled, of any size.
            op: a function of two objects, which returns one. It may change its first argument and return it. Ignored on
                the other ranks.
            root: the rank that gets the result.
            async_op: return a `Work` at once. The object is pickled later: leave it alone until the work is done.

        Returns:
            On the root, the result; None on the other ranks.

        Raises:
            TypeError: the object cannot be pickled, or `op` cannot be called. Nothing has been sent.
            ValueError: there is no rank `root`.
            OperatorFailed: on all ranks, `op` has raised on the root. The group stays usable.

        Example:
            >>> comm.reduce_object([comm.rank]) == (list(range(comm.size)) if comm.rank == 0 else None)
            True
        """
        try:
            if async_op:
                return self._later(
                    "reduce_object", lambda: self._reduce_objects("reduce_object", value, op, root), value
                )
            return self._reduce_objects("reduce_object", value, op, root)
        except BaseException as error:
            shorten(error)
            raise

    @overload
    def all_reduce_object(self, value: Any, op: ObjectOperator = ..., *, async_op: Literal[False] = ...) -> Any: ...
    @overload
    def all_reduce_object(self, value: Any, op: ObjectOperator = ..., *, async_op: Literal[True]) -> Work[Any]: ...
    def all_reduce_object(self, value: Any, op: ObjectOperator = operator.add, *, async_op: bool = False) -> Any:
        """Combine the objects of all ranks, and return the result on every rank.

        Rank 0 computes it, in rank order. So all ranks get the same result. If `op` there is one of Python's own and
        all objects are numbers, every rank computes it.

        Cost: as `gather_object`; and as `broadcast_object`, unless every rank computes. The sum of arrays of one shape
        and dtype, of integers or on two ranks of floats, takes an all_gather of 512 bytes and an all_reduce, unless it
        is infinite or no number somewhere.

        Args:
            value: anything that can be pickled, of any size.
            op: as for `reduce_object`; that of rank 0 is used.
            async_op: return a `Work` at once. The object is pickled later: leave it alone until the work is done.

        Returns:
            The result; each rank has its own copy.

        Raises:
            TypeError: the object cannot be pickled, or `op` cannot be called. Nothing has been sent.
            OperatorFailed: on all ranks, `op` has raised, or its result cannot be pickled. The group stays usable.

        Example:
            >>> comm.all_reduce_object({comm.rank}, set.union) == set(range(comm.size))
            True
        """
        try:
            if async_op:
                return self._later(
                    "all_reduce_object", lambda: self._reduce_objects("all_reduce_object", value, op, None), value
                )
            return self._reduce_objects("all_reduce_object", value, op, None)
        except BaseException as error:
            shorten(error)
            raise

    @overload
    def scan_object(self, value: Any, op: ObjectOperator = ..., *, async_op: Literal[False] = ...) -> Any: ...
    @overload
    def scan_object(self, value: Any, op: ObjectOperator = ..., *, async_op: Literal[True]) -> Work[Any]: ...
    def scan_object(self, value: Any, op: ObjectOperator = operator.add, *, async_op: bool = False) -> Any:
        """Combine the objects of ranks 0 to r, and return the result on rank r.

        Rank 0 computes all results, each from the one before.

        Cost: as `gather_object` and `scatter_object`.

        Args:
            value: anything that can be pickled, of any size.
            op: as for `reduce_object`; that of rank 0 is used.
            async_op: return a `Work` at once. The object is pickled later: leave it alone until the work is done.

        Returns:
            The result; each rank has its own copy.

        Raises:
            TypeError: as for `all_reduce_object`.
            OperatorFailed: as for `all_reduce_object`.

        Example:
            >>> comm.scan_object([comm.rank]) == list(range(comm.rank + 1))
            True
        """
        try:
            if async_op:
                return self._later("scan_object", lambda: self._scan_objects("scan_object", value, op), value)
            return self._scan_objects("scan_object", value, op)
        except BaseException as error:
            shorten(error)
            raise

    @overload
    def exscan_object(self, value: Any, op: ObjectOperator = ..., *, async_op: Literal[False] = ...) -> Any: ...
    @overload
    def exscan_object(self, value: Any, op: ObjectOperator = ..., *, async_op: Literal[True]) -> Work[Any]: ...
    def exscan_object(self, value: Any, op: ObjectOperator = operator.add, *, async_op: bool = False) -> Any:
        """Combine the objects of ranks 0 to r - 1, and return the result on rank r.

        Args:
            value: as for `scan_object`.
            op: as for `scan_object`.
            async_op: as for `scan_object`.

        Returns:
            The result, as from `scan_object`; None on rank 0.

        Raises:
            TypeError: as for `all_reduce_object`.
            OperatorFailed: as for `all_reduce_object`.

        Example:
            >>> comm.exscan_object([comm.rank]) == (list(range(comm.rank)) if comm.rank else None)
            True
        """
        try:
            if async_op:
                return self._later("exscan_object", lambda: self._scan_objects("exscan_object", value, op), value)
            return self._scan_objects("exscan_object", value, op)
        except BaseException as error:
            shorten(error)
            raise

    # --- how ----------------------------------------------------------------------------------------------------------

    def _reduce_objects(self, operation: str, value: Any, op: ObjectOperator, root: int | None) -> Any:
        """Reduce the objects on rank `root`, or on all ranks."""
        try:
            rank = self._dispatcher.failures.name
            at = 0 if root is None else given.as_root(root, self._size, operation, rank)
            _check_operator(op, operation, rank)
            mine = packed(value, operation, rank)
        except Exception as error:
            self._dispatcher.refused(operation, error)
            raise
        cause: Exception | None = None
        number = _NUMBERS.get(op, 0) if type(op) is BuiltinFunctionType else 0
        if mine[1] and _is_added(value, self._size):
            number |= _ARRAY

        def send_out(parts: Parts, told: Packed | None) -> Received:
            return cast(Received, parts._all_parts(Parts._broadcast_row, Parts._broadcast_rest, (told, at)))

        def combine(parts: Parts) -> tuple[str | None, Any]:
            nonlocal cause
            rows = parts._gather_rows(mine, at, number)
            found = None
            if isinstance(rows, More):
                if _are_alike(rows, at):
                    found = _sum(parts, value)
                if not found:
                    rows = parts._gather_rest(rows, mine, at)
            elif parts.operator_found:
                found = _combined(rows, _OPERATORS[parts.operator_found - 1])
            if found:
                return None, found[0] if root is None or self._rank == root else None
            if parts.rank != at:
                told = loaded(send_out(parts, None))
                return (told, None) if type(told) is _Failure else (None, told)
            result = None
            try:
                result = reduce(_guarded(op), _objects(cast(Sequence[Received], rows)))
                outcome = packed(result if root is None else None, operation, rank)
            except Exception as error:
                cause = error
                outcome = packed(_Failure(_in_words(error, op)), operation, rank)
            send_out(parts, outcome)
            return None if cause is None else _in_words(cause, op), result

        failure, result = self._compose(operation, combine, -1 if root is None else root)
        if failure is not None:
            self._raise(operation, at, failure, cause)
        return result

    def _scan_objects(self, operation: str, value: Any, op: ObjectOperator) -> Any:
        try:
            rank = self._dispatcher.failures.name
            _check_operator(op, operation, rank)
            mine = packed(value, operation, rank)
        except Exception as error:
            self._dispatcher.refused(operation, error)
            raise
        cause: Exception | None = None

        def combine(parts: Parts) -> Any:
            nonlocal cause
            outcomes: list[Packed] | None = None
            rows = parts._all_parts(Parts._gather_rows, Parts._gather_rest, (mine, 0))
            if parts.rank == 0:
                try:
                    # Each result is pickled at once, because the operator may change it to make the next one
                    if operation == "scan_object":
                        outcomes = [_pickled(None, one) for one in accumulate(_objects(rows), _guarded(op))]
                    else:
                        before = islice(_objects(rows), self._size - 1)
                        outcomes = [
                            _pickled(None, None),
                            *(_pickled(None, one) for one in accumulate(before, _guarded(op))),
                        ]
                except Exception as error:
                    cause = error
                    outcomes = [_pickled(_in_words(error, op), None)] * self._size
            return loaded(parts._all_parts(Parts._scatter_rows, Parts._scatter_rest, (outcomes, 0)))

        failure, result = self._compose(operation, combine)
        if failure is not None:
            self._raise(operation, 0, failure, cause)
        return result

    def _raise(self, operation: str, at: int, failure: str, cause: Exception | None) -> NoReturn:
        """Raise what has happened on rank `at`. cause: the exception, on that rank."""
        if cause is not None:
            reraise_of_handler(cause)
        name, culprit = self._dispatcher.failures.name, self._dispatcher.group.ranks[at]
        raise OperatorFailed(
            f"{operation} on rank {name}: the objects could not be combined on rank {culprit}, which raised {failure}"
        ) from cause


class _Failure(str):
    """What is sent out in place of a result: the error in words."""


def _is_added(value: Any, size: int) -> bool:
    """Return whether an object is an array of a kind that so many ranks may sum by an `all_reduce`."""
    if type(value) is not np.ndarray or value.ndim == 0 or not (value.flags.carray and value.dtype.isnative):
        return False
    return value.dtype.char in _INTEGERS or (size <= 2 and value.dtype.char in _FLOATS)


def _are_alike(more: More, root: int) -> bool:
    """Return whether the rank that computes adds, and all objects are arrays to be added of one shape and dtype, of
    which equal pickles tell."""
    if more.operators[root] != _NUMBERS[operator.add] | _ARRAY or more.pickles is None:
        return False
    are_added = all(one & _ARRAY for one in more.operators)
    return are_added and len(set(more.pickles)) == len(set(more.sizes or ())) == 1


def _sum(parts: Parts, mine: np.ndarray) -> tuple[np.ndarray] | None:
    """Return the sum of the arrays of all ranks, if numpy adds them without a complaint."""
    total = parts.all_reduce(mine)
    return (total,) if mine.dtype.char in _INTEGERS or np.isfinite(total).all() else None


def _combined(rows: Sequence[Received], op: ObjectOperator) -> tuple[Any] | None:
    """Return the result, if the objects are simple and the operator takes them."""
    objects = [loaded(one) for one in rows]
    if not _SIMPLE.issuperset(map(type, objects)):
        return None
    try:
        return (reduce(op, objects),)
    except Exception as error:
        reraise_of_handler(error)
        return None


def _objects(rows: Sequence[Received]) -> Iterator[Any]:
    return map(loaded, rows)


def _guarded(op: ObjectOperator) -> ObjectOperator:
    return lambda left, right: user_code.call(op, left, right)


def _pickled(failure: str | None, result: Any) -> Packed:
    return pickle.dumps((failure, result), 5), []


def _in_words(error: BaseException, op: ObjectOperator) -> str:
    cannot_be_added = op is operator.add and isinstance(error, TypeError) and error.__cause__ is None  # else of pickle
    advice = "; pass op, a function of two objects" if cannot_be_added else ""
    return f"{type(error).__name__}: {error}{advice}"


def _check_operator(op: Any, operation: str, rank: int) -> None:
    if not callable(op):
        raise TypeError(
            f"{operation} on rank {rank}: op must be a function of two objects, such as operator.add or max, "
            f"got {shown(op)}"
        )
