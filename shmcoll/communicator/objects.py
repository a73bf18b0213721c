"""The methods of a communicator for objects: anything that can be pickled, of any size. `calls/pickling.py` makes bytes
from them.

Each call is made of collectives, its parts (`composite_calls.py`). The first part exchanges a row for each object
(`object_rows.py`), which holds a pickle of few bytes (`object_calls.py`). If no object has buffers, nothing else is
sent (`object_parts.py`).
Otherwise every rank learns so from the rows that it gets, and all ranks make the other parts: pickles that are too long
for a row, those of some KiB without buffers in arrays of equal lengths and all others as frames; then the buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, cast, overload

from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.calls.pickling import PLAIN, Packed, packed
from shmcoll.communicator.collectives import Collectives
from shmcoll.communicator.composite_calls import CompositeDispatcher
from shmcoll.communicator.object_calls import EXCHANGES, ObjectCall
from shmcoll.communicator.object_parts import ObjectParts
from shmcoll.communicator.object_rows import Rows
from shmcoll.engine import context as c
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import shorten
from shmcoll.runtime.turns import REFUSED
from shmcoll.runtime.work import Work

Result = TypeVar("Result")

_ROOTED = ("broadcast_object", "gather_object", "scatter_object", "reduce_object")


class Objects(Collectives):
    """The methods of every communicator for objects."""

    _composite: dict[tuple[str, int], Parts]
    _object_calls: dict[str, dict[int, ObjectCall]]  # by name and root

    @overload
    def broadcast_object(self, value: Any, root: int = ..., *, async_op: Literal[False] = ...) -> Any: ...
    @overload
    def broadcast_object(self, value: Any, root: int = ..., *, async_op: Literal[True]) -> Work[Any]: ...
    def broadcast_object(self, value: Any, root: int = 0, *, async_op: bool = False) -> Any:
        """Return the object of rank `root` on every rank.

        Cost: one broadcast of the pickle, in which the root waits for nobody if it has up to 376 bytes. If it has more
        than 64 KiB, two broadcasts. If the object is an array, or
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
                    "all_gather_object", lambda: self._gather_objects("all_gather_object", value, -1), value
                )
            return self._gather_objects("all_gather_object", value, -1)
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

        Cost: one scatter of the pickles, in which the root waits for nobody if those of the others have up to 376 bytes
        together. If one has more than 64 KiB, a scatter_v of the pickles besides. If objects are arrays, or
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
            The list of objects in rank order. All of them are copies, also this rank's own object, unless it is a
            number, a string, `bytes` or None. The arrays that were not pickled share one block of memory.

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

    def _prepared(self, name: str, root: Any = -1) -> ObjectCall:
        """Return a call for objects, for the first time with this root. Raises `TypeError` or `ValueError` if there is
        no rank `root`."""
        if name in _ROOTED:
            root = given.as_root(root, self._size, name, self._dispatcher.failures.name)
        calls = self._object_calls[name]
        if root not in calls:
            parts = self._parts(name, root)
            calls[root] = ObjectCall(name, root, parts, parts._whole)
        return calls[root]

    def _later(self, operation: str, call: Callable[[], Any], used: Any) -> Any:
        """Submit the call. used: the object that this rank passes."""
        dispatcher = self._dispatcher
        return dispatcher.worker.submit(
            buffer_check.around(call, dispatcher, operation, {"the object": used}), collective=operation
        )

    def _broadcast_object(self, value: Any, root: int) -> Any:
        mine = None
        try:
            call = (type(root) is int and self._object_calls["broadcast_object"].get(root)) or self._prepared(
                "broadcast_object", root
            )
            if self._rank == call.root:
                mine = packed(value, "broadcast_object", call.rank)
        except Exception as error:
            self._dispatcher.refused("broadcast_object", error)
            raise
        told = call.broadcast(mine)
        return value if mine else told

    def _gather_objects(self, operation: str, value: Any, root: int) -> list[Any] | None:
        """Gather the objects on rank `root`, or on all ranks if it is -1."""
        try:
            call = (type(root) is int and self._object_calls[operation].get(root)) or self._prepared(operation, root)
            mine = packed(value, operation, call.rank)
        except Exception as error:
            self._dispatcher.refused(operation, error)
            raise
        return call.gather(mine, self._rank if type(value) in PLAIN else -1, value)

    def _scatter_objects(self, values: Sequence[Any] | None, root: int) -> Any:
        mine = None
        try:
            call = (type(root) is int and self._object_calls["scatter_object"].get(root)) or self._prepared(
                "scatter_object", root
            )
            if self._rank == call.root:
                mine = _all_packed(values, self._size, "the root", "scatter_object", call.rank)
        except Exception as error:
            self._dispatcher.refused("scatter_object", error)
            raise
        told = call.scatter(mine)
        return values[call.root] if values is not None and self._rank == call.root else told

    def _exchange_objects(self, values: Sequence[Any]) -> list[Any]:
        try:
            call = self._object_calls["all_to_all_object"].get(-1) or self._prepared("all_to_all_object")
            mine = _all_packed(values, self._size, "this rank", "all_to_all_object", call.rank)
        except Exception as error:
            self._dispatcher.refused("all_to_all_object", error)
            raise
        own = values[self._rank]
        return call.exchange(mine, self._rank if type(own) in PLAIN else -1, own)


class Parts(ObjectParts, Objects):
    """The collectives of a group as parts of a composite call. If one of them is composite itself, its parts are parts
    of the outer call. whole: the dispatcher of calls by themselves."""

    _dispatcher: CompositeDispatcher

    def __init__(self, dispatcher: Any, whole: Any):
        self._open(dispatcher)
        self._whole = whole
        self._composite = {}  # a call within a composite call is part of it
        self._object_calls = new_calls()

    def _parts(self, call: str, root: int = -1) -> Parts:
        return type(self)(self._dispatcher, self._whole)  # not `self`, which would be in a circle with its calls

    def _make(self, call: str, body: Callable[..., Result], given: tuple[Any, ...]) -> Result:
        """Have `body` make the parts. An exception that comes out of it ends the group."""
        turns = self._whole.worker.turns
        if profile := self._whole.profile:
            with profile.composite(call, self._whole.words):
                made = turns.alone(call, body, (self, *given), self._left_by)
        else:
            made = turns.alone(call, body, (self, *given), self._left_by)
        if made is REFUSED:
            raise self._whole.failures.error(call, c.NOT_ALONE)
        return cast(Result, made)

    def _row_entry(self, collective: str) -> tuple[Callable[..., int], int]:
        """Return the native entry that exchanges rows, and the mark of the composite call for it."""
        return self._whole.routine(collective), self._dispatcher.mark

    def _move_rows(self, collective: str, entry: Callable[..., int], rows: Rows, _root: int) -> int:
        """Exchange rows in the turn of this thread. Return GOES_ON if other parts follow, else OK."""
        return self._dispatcher.complete(collective, entry, rows.arguments)

    def _left_by(self, error: BaseException) -> None:
        self._dispatcher.left_by(error)


def new_calls() -> dict[str, dict[int, ObjectCall]]:
    """Return a place for the calls of each name."""
    return {name: {} for name in EXCHANGES}


def _all_packed(values: Any, size: int, giver: str, operation: str, rank: int) -> list[Packed]:
    _check_values(values, size, giver, operation, rank)
    return [packed(value, operation, rank) for value in values]


def _check_values(values: Any, size: int, giver: str, operation: str, rank: int) -> None:
    if type(values) is not list and not isinstance(values, Sequence):  # which takes 0.3 us
        raise TypeError(f"{operation} on rank {rank}: {giver} gives a sequence of {size} objects, got {shown(values)}")
    if len(values) != size:
        raise ValueError(f"{operation} on rank {rank}: {len(values)} objects for {size} ranks")
