"""The methods of a communicator for objects: anything that can be pickled, of any size. `calls/pickling.py` makes bytes
from them.

Each call is made of collectives, its parts (`composite_calls.py`). The first part exchanges a row for each object
(`object_rows.py`), which holds a pickle of few bytes whole: then nothing else is sent. If any object is longer, every
rank learns so from the rows that it gets, and all ranks make the other parts, in which the objects travel whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal, TypeVar, cast, overload

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.calls.pickling import (
    ALIGNED,
    Packed,
    Received,
    as_block,
    framed,
    lengths,
    loaded,
    of_message,
    packed,
    unpacked,
)
from shmcoll.communicator.collectives import Collectives
from shmcoll.communicator.composite_calls import CompositeDispatcher
from shmcoll.communicator.object_rows import Rows
from shmcoll.engine.context import NOT_ALONE
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import shorten
from shmcoll.runtime.turns import REFUSED
from shmcoll.runtime.work import Work

Result = TypeVar("Result")


class Objects(Collectives):
    """The methods of every communicator for objects."""

    _composite: dict[tuple[str, int], Parts]

    @overload
    def broadcast_object(self, value: Any, root: int = ..., *, async_op: Literal[False] = ...) -> Any: ...
    @overload
    def broadcast_object(self, value: Any, root: int = ..., *, async_op: Literal[True]) -> Work[Any]: ...
    def broadcast_object(self, value: Any, root: int = 0, *, async_op: bool = False) -> Any:
        """Return the object of rank `root` on every rank.

        Cost: one broadcast of 512 bytes for a pickle of up to 496. For longer ones, a broadcast of the pickle, and one
        for each array of 16 KiB or more in the object.

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

        Cost: one all_gather of 512 bytes for pickles of up to 496. If any is longer, a gather_v of the pickles, and one
        for each array of 16 KiB or more in the object that has most of them.

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

        Cost: that of `gather_object`, with all_gather_v in place of gather_v.

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

        Cost: one scatter of 512 bytes for pickles of up to 496. If any is longer, a scatter_v of the pickles, and one
        for each array of 16 KiB or more in the object that has most of them, before which the root copies these arrays
        side by side.

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

        Cost: one all_to_all of 512 bytes for pickles of up to 496. If any is longer, an all_to_all_v of the pickles,
        and a copy of the arrays of 16 KiB or more, which are not pickled.

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
        parts = self._composite.get((call, root)) or self._parts(call, root)
        return parts._make(call, body, given)

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
        told = self._compose("broadcast_object", Parts._broadcast_packed, root, mine, root)
        return value if self._rank == root else loaded(*told)

    def _gather_objects(self, operation: str, value: Any, root: int | None) -> list[Any] | None:
        """Gather the objects on rank `root`, or on all ranks."""
        try:
            rank = self._dispatcher.failures.name
            root = None if root is None else given.as_root(root, self._size, operation, rank)
            mine = packed(value, operation, rank)
        except Exception as error:
            self._dispatcher.refused(operation, error)
            raise
        told = self._compose(operation, Parts._gather_packed, -1 if root is None else root, mine, root)
        return None if told is None else [loaded(*one) for one in told]

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
        told = self._compose("scatter_object", Parts._scatter_packed, root, mine, root)
        return values[root] if values is not None and self._rank == root else loaded(*told)

    def _exchange_objects(self, values: Sequence[Any]) -> list[Any]:
        try:
            mine = _all_packed(values, self._size, "this rank", "all_to_all_object", self._dispatcher.failures.name)
        except Exception as error:
            self._dispatcher.refused("all_to_all_object", error)
            raise
        return self._compose("all_to_all_object", Parts._exchange_packed, -1, mine)


class Parts(Objects):
    """The collectives of a group as parts of a composite call. If one of them is composite itself, its parts are parts
    of the outer call. whole: the dispatcher of calls by themselves."""

    _dispatcher: CompositeDispatcher

    def __init__(self, dispatcher: Any, whole: Any):
        self._open(dispatcher)
        self._whole = whole
        self._turns = whole.worker.turns
        self._free_rows: list[Rows] = []  # that no call uses: of another thread, or one that a handler has interrupted

    def _compose(self, call: str, body: Callable[..., Result], root: int = -1, *given: Any) -> Result:
        return self._make(call, body, given)

    def _make(self, call: str, body: Callable[..., Result], given: tuple[Any, ...]) -> Result:
        """Have `body` make the parts. An exception that comes out of it ends the group."""
        if profile := self._whole.profile:
            with profile.composite(call, self._whole.words):
                made = self._turns.alone(call, body, (self, *given), self._left_by)
        else:
            made = self._turns.alone(call, body, (self, *given), self._left_by)
        if made is REFUSED:
            raise self._whole.failures.error(call, NOT_ALONE)
        return cast(Result, made)

    def _left_by(self, error: BaseException) -> None:
        self._dispatcher.left_by(error)

    # --- objects ------------------------------------------------------------------------------------------------------

    def _broadcast_packed(self, mine: Packed | None, root: int) -> Received:
        """Return the object of the root."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        is_whole = mine is not None and rows.put(0, *mine)
        self.broadcast(rows.mine, root)
        told, _, length = (None, 0, 0) if mine else rows.get()
        self._free_rows.append(rows)
        if mine and is_whole:
            return mine
        if told is not None:
            return told, ()
        frame = np.frombuffer(framed(*mine), np.uint8) if mine else np.empty(length, np.uint8)
        self.broadcast(frame, root)
        buffers = mine[1] if mine else [np.empty(size, np.uint8) for size in lengths(frame)]
        for buffer in buffers:
            self.broadcast(buffer, root)
        return mine or unpacked(frame, buffers)

    def _gather_packed(self, mine: Packed, root: int | None) -> list[Received] | None:
        """Return the objects of all ranks; None on a rank that does not get them."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        rows.put(0, *mine)
        self.all_gather(rows.mine, out=rows.all)
        told, most, sizes = rows.get_all()
        self._free_rows.append(rows)
        is_given = root is None or self._rank == root
        if most < 0:
            return told if is_given else None
        frame = np.frombuffer(framed(*mine), np.uint8)
        if not is_given:
            for part in [frame, *mine[1], *[_nothing()] * (most - len(mine[1]))]:
                self._collect(part, root)
            return None
        joined, _ = self._collect(frame, root, out=np.empty(sum(sizes), np.uint8))
        frames = [joined[end - n : end] for n, end in zip(sizes, accumulate(sizes), strict=True)]
        found: list[list[np.ndarray]] = [[] for _ in frames]
        for k in range(most):
            part = mine[1][k] if k < len(mine[1]) else _nothing()
            sizes = tuple((lengths(one)[k : k + 1] or (0,))[0] for one in frames)
            ends = [*accumulate((-(-size // ALIGNED) * ALIGNED for size in sizes), initial=0)]
            out = np.empty(ends.pop(), np.uint8)
            joined, _ = self._collect(part, root, recv_displs=ends, out=out)
            for rank, (start, size) in enumerate(zip(ends, sizes, strict=True)):
                found[rank].append(joined[start : start + size])
        return [unpacked(*one) for one in zip(frames, found, strict=True)]

    def _collect(self, part: np.ndarray, root: int | None, **where: Any) -> Any:
        return self.all_gather_v(part, **where) if root is None else self.gather_v(part, root, **where)

    def _scatter_packed(self, mine: list[Packed] | None, root: int) -> Received:
        """Return this rank's object of those of the root."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        if mine:
            rows.put_all(mine)
        self.scatter(rows.all, root, out=rows.mine)
        told, most, length = rows.get()
        self._free_rows.append(rows)
        if told is not None:
            return told, ()
        columns: list[Any] = [None] * (1 + most)
        if mine:
            frames = [[np.frombuffer(framed(*one), np.uint8), *one[1]] for one in mine]
            columns = [[(parts + [_nothing()] * most)[k] for parts in frames] for k in range(1 + most)]
        frame, buffers = np.empty(length, np.uint8), []
        for k, column in enumerate(columns):
            joined, counts = (np.concatenate(column), [one.size for one in column]) if mine else (None, None)
            out = frame if k == 0 else np.empty((lengths(frame)[k - 1 : k] or (0,))[0], np.uint8)
            self.scatter_v(joined, root, send_counts=counts, out=out)
            buffers.append(out)
        return unpacked(frame, buffers[1:])

    def _exchange_packed(self, mine: list[Packed]) -> list[Any]:
        """Return the objects that the ranks have sent to this one."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        rows.put_all(mine)
        self.all_to_all(rows.all, out=rows.all)
        told, most, _ = rows.get_all()
        self._free_rows.append(rows)
        if most < 0:
            return [loaded(*one) for one in told]
        blocks = [as_block(*one) for one in mine]
        joined, counts = self.all_to_all_v(np.concatenate(blocks), [block.size for block in blocks])
        return [of_message(joined[end - n : end]) for n, end in zip(counts, np.cumsum(counts), strict=True)]


def _nothing() -> np.ndarray:
    return np.empty(0, np.uint8)


def _all_packed(values: Any, size: int, giver: str, operation: str, rank: int) -> list[Packed]:
    _check_values(values, size, giver, operation, rank)
    return [packed(value, operation, rank) for value in values]


def _check_values(values: Any, size: int, giver: str, operation: str, rank: int) -> None:
    if not isinstance(values, Sequence):
        raise TypeError(f"{operation} on rank {rank}: {giver} gives a sequence of {size} objects, got {shown(values)}")
    if len(values) != size:
        raise ValueError(f"{operation} on rank {rank}: {len(values)} objects for {size} ranks")
