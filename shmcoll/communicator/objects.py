"""The methods of a communicator for objects: anything that can be pickled, of any size. `calls/pickling.py` makes bytes
from them.

Each call is made of collectives, its parts (`composite_calls.py`, `object_parts.py`). The first part exchanges a row
for each object (`object_rows.py`), which holds a pickle of few bytes. If no object has buffers, nothing else is sent.
Otherwise every rank learns so from the rows that it gets, and all ranks make the other parts: pickles that are too long
for a row, those of some KiB without buffers in arrays of equal lengths and all others as frames; then the buffers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, cast, overload

from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.calls.pickling import Packed, loaded, packed
from shmcoll.communicator.collectives import Collectives
from shmcoll.communicator.composite_calls import CompositeDispatcher
from shmcoll.communicator.object_parts import ObjectParts
from shmcoll.communicator.object_rows import More
from shmcoll.diagnostics.other_threads import CODES
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.native.tables import CALL_BITS
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import shorten
from shmcoll.runtime.turns import REFUSED
from shmcoll.runtime.work import Work

Result = TypeVar("Result")

_ACTIVE, _COLLECTIVE, _OWNER = (word // WORD for word in (c.ACTIVE, c.COLLECTIVE, c.OWNER))


class Objects(Collectives):
    """The methods of every communicator for objects."""

    _composite: dict[tuple[str, int], Parts]

    @overload
    def broadcast_object(self, value: Any, root: int = ..., *, async_op: Literal[False] = ...) -> Any: ...
    @overload
    def broadcast_object(self, value: Any, root: int = ..., *, async_op: Literal[True]) -> Work[Any]: ...
    def broadcast_object(self, value: Any, root: int = 0, *, async_op: bool = False) -> Any:
        """Return the object of rank `root` on every rank.

        Cost: one broadcast of 512 bytes. If the pickle is longer, a broadcast of it. If the object is an array, or
        `bytes` of 64 KiB, or has arrays of 96 KiB or more, a broadcast of each, which is not pickled.

        Args:
            value: on the root, anything that can be pickled, of any size; ignored on the other ranks.
            root: the rank whose object is returned.
            async_op: return a `Work` at once. The object is pickled later: leave it alone until the work is done.

        Returns:
            On the root, `value` itself; on the other ranks, a copy.

        Raises:
            TypeError: on the root, the object cannot be pickled. Nothing has been sent.
            ValueError: there is no rank `root`.

        Example:
            >>> comm.broadcast_object({"rate": 0.1} if comm.rank == 0 else None)
            {'rate': 0.1}
        """
        try:
            if async_op:
                used = value if type(root) is not int or self._rank == root else None
                return self._later("broadcast_object", lambda: self._broadcast_object(value, root), used)
            return self._broadcast_object(value, root)
        except BaseException as error:
            shorten(error)
            raise

    @overload
    def gather_object(self, value: Any, root: int = ..., *, async_op: Literal[False] = ...) -> list[Any] | None: ...
    @overload
    def gather_object(self, value: Any, root: int = ..., *, async_op: Literal[True]) -> Work[list[Any] | None]: ...
    def gather_object(self, value: Any, root: int = 0, *, async_op: bool = False) -> Any:
        """Return the objects of all ranks on rank `root`.

        Cost: one all_gather of 512 bytes. If any pickle is longer, a gather or gather_v of the pickles. If objects are
        arrays, or `bytes` of 64 KiB, or have arrays of 96 KiB or more, one for each in the object that has most of
        them.

        Args:
            value: anything that can be pickled, of any size.
            root: the rank that gets the objects.
            async_op: return a `Work` at once. The object is pickled later: leave it alone until the work is done.

        Returns:
            On the root, the list of objects in rank order; None on the other ranks.

        Raises:
            TypeError: the object cannot be pickled. Nothing has been sent.
            ValueError: there is no rank `root`.
        """
        try:
            if async_op:
                return self._later("gather_object", lambda: self._gather_objects("gather_object", value, root), value)
            return self._gather_objects("gather_object", value, root)
        except BaseException as error:
            shorten(error)
            raise

    @overload
    def all_gather_object(self, value: Any, *, async_op: Literal[False] = ...) -> list[Any]: ...
    @overload
    def all_gather_object(self, value: Any, *, async_op: Literal[True]) -> Work[list[Any]]: ...
    def all_gather_object(self, value: Any, *, async_op: bool = False) -> Any:
        """Return the objects of all ranks on every rank.

        Cost: that of `gather_object`, with all_gather in place of gather.

        Args:
            value: anything that can be pickled, of any size.
            async_op: return a `Work` at once. The object is pickled later: leave it alone until the work is done.

        Returns:
            The list of objects in rank order.

        Raises:
            TypeError: the object cannot be pickled. Nothing has been sent.

        Example:
            >>> comm.all_gather_object(f"rank {comm.rank}") == [f"rank {i}" for i in range(comm.size)]
            True
        """
        try:
            if async_op:
                return self._later(
                    "all_gather_object", lambda: self._gather_objects("all_gather_object", value, None), value
                )
            return self._gather_objects("all_gather_object", value, None)
        except BaseException as error:
            shorten(error)
            raise

    @overload
    def scatter_object(
        self, values: Sequence[Any] | None = ..., root: int = ..., *, async_op: Literal[False] = ...
    ) -> Any: ...
    @overload
    def scatter_object(
        self, values: Sequence[Any] | None = ..., root: int = ..., *, async_op: Literal[True]
    ) -> Work[Any]: ...
    def scatter_object(self, values: Sequence[Any] | None = None, root: int = 0, *, async_op: bool = False) -> Any:
        """Return object r of the sequence of rank `root` on rank r.

        Cost: one scatter of 512 bytes. If any pickle is longer, a scatter_v of the pickles. If objects are arrays, or
        `bytes` of 64 KiB, or have arrays of 96 KiB or more, one for each in the object that has most of them, before
        which the root copies these side by side, if there is more than one other rank.

        Args:
            values: on the root, a sequence of one object for each rank; ignored on the other ranks.
            root: the rank whose objects are returned.
            async_op: return a `Work` at once. The objects are pickled later: leave them alone until the work is done.

        Returns:
            On the root, the root's own object itself; on the other ranks, a copy.

        Raises:
            TypeError: on the root, `values` is not a sequence, or an object cannot be pickled. Nothing has been sent.
            ValueError: on the root, the number of objects is not the number of ranks; or there is no rank `root`.
        """
        try:
            if async_op:
                used = values if type(root) is not int or self._rank == root else None
                return self._later("scatter_object", lambda: self._scatter_objects(values, root), used)
            return self._scatter_objects(values, root)
        except BaseException as error:
            shorten(error)
            raise

    @overload
    def all_to_all_object(self, values: Sequence[Any], *, async_op: Literal[False] = ...) -> list[Any]: ...
    @overload
    def all_to_all_object(self, values: Sequence[Any], *, async_op: Literal[True]) -> Work[list[Any]]: ...
    def all_to_all_object(self, values: Sequence[Any], *, async_op: bool = False) -> Any:
        """Send an object to every rank, and return the objects that all ranks have sent to this one.

        Cost: one all_to_all of 512 bytes. If any pickle is longer, an all_to_all_v of the pickles. If objects are
        arrays, or `bytes` of 64 KiB, or have arrays of 96 KiB or more, one for each in the object that has most of
        them, before which they are copied side by side.

        Args:
            values: a sequence of one object for each rank.
            async_op: return a `Work` at once. The objects are pickled later: leave them alone until the work is done.

        Returns:
            The list of objects in rank order. All of them are copies, also this rank's own object. The arrays that were
            not pickled share one block of memory.

        Raises:
            TypeError: `values` is not a sequence, or an object cannot be pickled. Nothing has been sent.
            ValueError: the number of objects is not the number of ranks.

        Example:
            >>> comm.all_to_all_object([(comm.rank, i) for i in range(comm.size)])[-1] == (comm.size - 1, comm.rank)
            True
        """
        try:
            if async_op:
                return self._later("all_to_all_object", lambda: self._exchange_objects(values), values)
            return self._exchange_objects(values)
        except BaseException as error:
            shorten(error)
            raise

    # --- how ----------------------------------------------------------------------------------------------------------

    def _parts(self, call: str, root: int = -1) -> Parts:
        """Return the collectives of this group as parts of a composite call."""
        if (call, root) not in self._composite:
            self._composite[call, root] = Parts(CompositeDispatcher(self._dispatcher, call, root), self._dispatcher)
        return self._composite[call, root]

    def _compose(self, call: str, body: Callable[..., Result], root: int = -1, *given: Any) -> Result:
        """Make a composite call, whose parts `body` makes, and return its result. given: what `body` is called with,
        behind the parts."""
        return self._parts(call, root)._make(call, body, given)

    def _exchange(self, call: str, first: Callable[..., Any], rest: Callable[..., Any], root: int, *given: Any) -> Any:
        """Make a composite call of two methods of `object_parts.py`, and return its result."""
        parts = self._composite.get((call, root)) or self._parts(call, root)
        return parts._make_both(call, first, rest, given)

    def _later(self, operation: str, call: Callable[[], Any], used: Any) -> Any:
        """Submit the call. used: the object that this rank passes."""
        dispatcher = self._dispatcher
        return dispatcher.worker.submit(
            buffer_check.around(call, dispatcher, operation, {"the object": used}), collective=operation
        )

    def _broadcast_object(self, value: Any, root: int) -> Any:
        mine = None
        try:
            rank = self._dispatcher.failures.name
            root = given.as_root(root, self._size, "broadcast_object", rank)
            if self._rank == root:
                mine = packed(value, "broadcast_object", rank)
        except Exception as error:
            self._dispatcher.refused("broadcast_object", error)
            raise
        told = self._exchange("broadcast_object", Parts._broadcast_row, Parts._broadcast_rest, root, mine, root)
        return value if mine else loaded(told)

    def _gather_objects(self, operation: str, value: Any, root: int | None) -> list[Any] | None:
        """Gather the objects on rank `root`, or on all ranks."""
        try:
            rank = self._dispatcher.failures.name
            root = None if root is None else given.as_root(root, self._size, operation, rank)
            mine = packed(value, operation, rank)
        except Exception as error:
            self._dispatcher.refused(operation, error)
            raise
        at = -1 if root is None else root
        told = self._exchange(operation, Parts._gather_rows, Parts._gather_rest, at, mine, root)
        if root is not None and self._rank != root:
            return None
        kept = self._rank if type(value) is bytes else -1  # no user can tell it from a copy
        return [loaded(one) if i != kept else value for i, one in enumerate(told)]

    def _scatter_objects(self, values: Sequence[Any] | None, root: int) -> Any:
        mine = None
        try:
            rank = self._dispatcher.failures.name
            root = given.as_root(root, self._size, "scatter_object", rank)
            if self._rank == root:
                mine = _all_packed(values, self._size, "the root", "scatter_object", rank)
        except Exception as error:
            self._dispatcher.refused("scatter_object", error)
            raise
        told = self._exchange("scatter_object", Parts._scatter_rows, Parts._scatter_rest, root, mine, root)
        return values[root] if values is not None and self._rank == root else loaded(told)

    def _exchange_objects(self, values: Sequence[Any]) -> list[Any]:
        try:
            mine = _all_packed(values, self._size, "this rank", "all_to_all_object", self._dispatcher.failures.name)
        except Exception as error:
            self._dispatcher.refused("all_to_all_object", error)
            raise
        told = self._exchange("all_to_all_object", Parts._exchange_rows, Parts._exchange_rest, -1, mine)
        return [loaded(one) for one in told]


class Parts(ObjectParts, Objects):
    """The collectives of a group as parts of a composite call. If one of them is composite itself, its parts are parts
    of the outer call. whole: the dispatcher of calls by themselves."""

    _dispatcher: CompositeDispatcher

    def __init__(self, dispatcher: Any, whole: Any):
        self._open(dispatcher)
        self._whole = whole
        self._turns = whole.worker.turns
        self._words = memoryview(whole.words)
        self._free_rows = []
        self._composite = {}  # a call within a composite call is part of it

    def _parts(self, call: str, root: int = -1) -> Parts:
        return self

    def _make(self, call: str, body: Callable[..., Result], given: tuple[Any, ...]) -> Result:
        """Have `body` make the parts. An exception that comes out of it ends the group."""
        if profile := self._whole.profile:
            with profile.composite(call, self._whole.words):
                made = self._turns.alone(call, body, (self, *given), self._left_by)
        else:
            made = self._turns.alone(call, body, (self, *given), self._left_by)
        if made is REFUSED:
            raise self._whole.failures.error(call, c.NOT_ALONE)
        return cast(Result, made)

    def _make_both(self, call: str, first: Callable[..., Any], rest: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        """Do the same with two methods of `object_parts.py`. If nothing else goes on, these lines are `Turns.alone`: in
        fewer frames, which take as long as the call itself."""
        words = self._words
        if self._whole.profile or words[_ACTIVE] or words[_COLLECTIVE] or words[_OWNER]:
            return self._make(call, Parts._all_parts, (first, rest, given))
        words[_COLLECTIVE] = threading.get_ident() << CALL_BITS | CODES.get(call, 0)
        try:
            told = first(self, *given)
            return rest(self, told, *given) if type(told) is More else told
        except BaseException as error:
            self._left_by(error)
            raise
        finally:
            words[_COLLECTIVE] = 0

    def _all_parts(self, first: Callable[..., Any], rest: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        told = first(self, *given)
        return rest(self, told, *given) if type(told) is More else told

    def _left_by(self, error: BaseException) -> None:
        self._dispatcher.left_by(error)


def _all_packed(values: Any, size: int, giver: str, operation: str, rank: int) -> list[Packed]:
    _check_values(values, size, giver, operation, rank)
    return [packed(value, operation, rank) for value in values]


def _check_values(values: Any, size: int, giver: str, operation: str, rank: int) -> None:
    if not isinstance(values, Sequence):
        raise TypeError(f"{operation} on rank {rank}: {giver} gives a sequence of {size} objects, got {shown(values)}")
    if len(values) != size:
        raise ValueError(f"{operation} on rank {rank}: {len(values)} objects for {size} ranks")
