"""Reductions of objects as methods of a communicator.

One rank gathers the objects, combines them in rank order, and sends out the result. So all ranks get the same result,
whatever the operator does, and the operator need be neither associative nor commutative. If the operator raises an
exception on that rank, the exception is sent out in place of the result, and every rank raises `OperatorFailed`.

Where the operator of that rank is one of Python's own, and all objects are numbers, each rank computes the same
result from the same pickles, and nothing is sent out; in a scan it computes those of all ranks. The row of that rank
says which operator it has passed. If the operator raises, it raises on all ranks. In all other cases the row of some
rank says that the call goes on: that of a rank whose object is no number, or of that rank with another operator.

Where that operator is `operator.add`, and all objects are arrays of numpy of one shape and dtype, the ranks sum these
by an `all_reduce`: of integers, and of floats on two ranks, every order of additions gives the same bits. numpy may
warn or raise if a sum is infinite or no number. All ranks get the same sums, so all see that, and go the other way.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate, islice
from pickle import loads
from types import BuiltinFunctionType
from typing import Any, Literal, NoReturn, TypeAlias, overload

import numpy as np

from shmcoll.calls.pickling import Packed, Received, loaded, packed
from shmcoll.communicator.object_rows import GOES_ON, More, Rows
from shmcoll.communicator.objects import Objects, Parts
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import shorten
from shmcoll.errors import OperatorFailed
from shmcoll.runtime import user_code
from shmcoll.runtime.work import Work

ObjectOperator = Callable[[Any, Any], Any]
Outcome: TypeAlias = tuple[str | None, Exception | None, Any]  # an error in words, the exception, the result

#: operators, by their numbers in rows, and types for which they give the same result on all ranks
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
                    "all_reduce_object", lambda: self._reduce_objects("all_reduce_object", value, op, -1), value
                )
            return self._reduce_objects("all_reduce_object", value, op, -1)
        except BaseException as error:
            shorten(error)
            raise

    @overload
    def scan_object(self, value: Any, op: ObjectOperator = ..., *, async_op: Literal[False] = ...) -> Any: ...
    @overload
    def scan_object(self, value: Any, op: ObjectOperator = ..., *, async_op: Literal[True]) -> Work[Any]: ...
    def scan_object(self, value: Any, op: ObjectOperator = operator.add, *, async_op: bool = False) -> Any:
        """Combine the objects of ranks 0 to r, and return the result on rank r.

        Rank 0 computes all results, each from the one before. If `op` there is one of Python's own and all objects are
        numbers, every rank computes them.

        Cost: as `gather_object`; and as `scatter_object`, unless every rank computes.

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

    def _reduce_objects(self, operation: str, value: Any, op: ObjectOperator, root: int) -> Any:
        """Reduce the objects on rank `root`, or on all ranks if it is -1."""
        try:
            call = (type(root) is int and self._object_calls[operation].get(root)) or self._prepared(operation, root)
            _check_operator(op, operation, call.rank)
            mine = packed(value, operation, call.rank)
        except Exception as error:
            self._dispatcher.refused(operation, error)
            raise
        at, is_given = max(call.root, 0), call.root in (-1, self._rank)
        if mine[1]:  # then the row says that other parts follow
            number = _ARRAY if _is_added(value, self._size) else 0
        else:
            number = 0 if type(value) in _SIMPLE else GOES_ON
        number |= _known(op) or (GOES_ON if self._rank == at else 0)
        rows = call.free_rows()
        rows.put(*mine, number)
        told = call.make(rows, self._combine, operation, value, op, mine, at)
        failure, cause, result = told or _numbers(rows, at)
        call.give_back(rows)
        if failure is not None:
            self._raise(operation, at, failure, cause)
        return result if is_given else None

    def _combine(
        self,
        parts: Parts,
        told: Sequence[Received] | More,
        operation: str,
        value: Any,
        op: ObjectOperator,
        mine: Packed,
        at: int,
    ) -> Outcome:
        """Make the other parts of a reduction on rank `at`, of objects that are not all numbers, or by an operator that
        is not Python's."""
        if isinstance(told, More):
            if _are_alike(told, at) and (total := _sum(parts, value)) is not None:
                return None, None, total
            told = parts._gather_rest(told, mine, at)
        send_out = parts._prepared("broadcast_object", at)
        if self._rank != at:
            got = send_out.broadcast(None)
            return (got, None, None) if type(got) is _Failure else (None, None, got)
        rank, cause, failure, result = self._dispatcher.failures.name, None, None, None
        try:
            result = reduce(_guarded(op), map(loaded, told))
            outcome = packed(result if operation == "all_reduce_object" else None, operation, rank)
        except Exception as error:
            cause, failure = error, _in_words(error, op)
            outcome = packed(_Failure(failure), operation, rank)
        send_out.broadcast(outcome)
        return failure, cause, result

    def _scan_objects(self, operation: str, value: Any, op: ObjectOperator) -> Any:
        try:
            rank = self._dispatcher.failures.name
            _check_operator(op, operation, rank)
            call, mine = self._prepared(operation), packed(value, operation, rank)
        except Exception as error:
            self._dispatcher.refused(operation, error)
            raise
        cause: Exception | None = None

        def combine(parts: Parts, told: Sequence[Received] | More) -> Any:
            nonlocal cause
            outcomes: list[Packed] | None = None
            if isinstance(told, More):
                told = parts._gather_rest(told, mine, 0)
            results = parts._prepared("scatter_object", 0)
            if parts.rank == 0:
                objects = map(loaded, told)
                try:
                    # Each result is pickled at once, because the operator may change it to make the next one
                    if operation == "scan_object":
                        outcomes = [_pickled(None, one) for one in accumulate(objects, _guarded(op))]
                    else:
                        before = islice(objects, self._size - 1)
                        outcomes = [
                            _pickled(None, None),
                            *(_pickled(None, one) for one in accumulate(before, _guarded(op))),
                        ]
                except Exception as error:
                    cause = error
                    outcomes = [_pickled(_in_words(error, op), None)] * self._size
            got = results.scatter(outcomes)
            return loaded(outcomes[0]) if outcomes else got

        rows = call.free_rows()
        number = _known(op) or (GOES_ON if self._rank == 0 else 0)
        rows.put(*mine, number if type(value) in _SIMPLE else number | GOES_ON)
        told = call.make(rows, combine)
        if told is None:
            failure, cause, result = _numbers_so_far(rows, self._size, self._rank, operation == "scan_object")
        else:
            failure, result = told
        call.give_back(rows)
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


def _sum(parts: Parts, mine: np.ndarray) -> np.ndarray | None:
    """Return the sum of the arrays of all ranks, if numpy adds them without a complaint."""
    total = parts.all_reduce(mine)
    return total if mine.dtype.char in _INTEGERS or np.isfinite(total).all() else None


def _numbers(rows: Rows, at: int) -> Outcome:
    """Return what each rank finds by itself: the objects are numbers, and the operator of rank `at` is Python's."""
    try:
        return None, None, reduce(_OPERATORS[rows.operator_of(at) - 1], map(loads, rows.pickles))
    except Exception as error:
        reraise_of_handler(error)
        return _in_words(error, _OPERATORS[rows.operator_of(at) - 1]), error, None


def _numbers_so_far(rows: Rows, size: int, rank: int, counts_own: bool) -> Outcome:
    """Return the same for a scan, of which each rank computes all results, so that all raise what one of them
    raises. counts_own: whether that of a rank contains its own number."""
    op = _OPERATORS[rows.operator_of(0) - 1]
    try:
        results = [*accumulate(map(loads, rows.pickles if counts_own else rows.pickles[: size - 1]), op)]
    except Exception as error:
        reraise_of_handler(error)
        return _in_words(error, op), error, None
    return None, None, results[rank] if counts_own else results[rank - 1] if rank else None


def _known(op: ObjectOperator) -> int:
    """Return the number of an operator of Python's own, or 0."""
    return _NUMBERS.get(op, 0) if type(op) is BuiltinFunctionType else 0


def _guarded(op: ObjectOperator) -> ObjectOperator:
    return lambda left, right: user_code.call(op, left, right)


def _pickled(failure: str | None, result: Any) -> Packed:
    return pickle.dumps((failure, result), 5), ()


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
