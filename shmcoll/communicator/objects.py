"""The methods of a communicator for objects: anything that can be pickled, of any size. `calls/pickling.py` makes bytes
from them.

Each call is made of several collectives, its parts (`composite_calls.py`). The first part exchanges the sizes that the
next ones need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import accumulate
from typing import Any, Literal, Self, TypeAlias, TypeVar, overload

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.calls.pickling import ALIGNED, as_block, lengths, of_message, packed, unpacked
from shmcoll.communicator.collectives import Collectives
from shmcoll.communicator.composite_calls import CompositeDispatcher
from shmcoll.engine.layout import WORD
from shmcoll.engine.system.text import shown
from shmcoll.runtime.work import Work

Result = TypeVar("Result")
Packed: TypeAlias = tuple[np.ndarray, list[np.ndarray]]  # see `calls/pickling.py`

FIRST_BYTES = 4096  # bytes of a frame that are sent with its length, in one broadcast


class Objects(Collectives):
    """The methods of every communicator for objects."""

    _composite: dict[tuple[str, int], Parts]

    @overload
    def broadcast_object(self, value: Any, root: int = ..., *, async_op: Literal[False] = ...) -> Any: ...
    @overload
    def broadcast_object(self, value: Any, root: int = ..., *, async_op: Literal[True]) -> Work[Any]: ...
    def broadcast_object(self, value: Any, root: int = 0, *, async_op: bool = False) -> Any:
        """Return the object of rank `root` on every rank.

        Cost: one broadcast of 4 KiB for short objects. For longer ones, a second broadcast of the rest of the pickle,
        and one for each array of 16 KiB or more in the object.

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
        used = value if type(root) is not int or self._rank == root else None
        return self._now_or_later("broadcast_object", lambda: self._broadcast_object(value, root), used, async_op)

    @overload
    def gather_object(self, value: Any, root: int = ..., *, async_op: Literal[False] = ...) -> list[Any] | None: ...
    @overload
    def gather_object(self, value: Any, root: int = ..., *, async_op: Literal[True]) -> Work[list[Any] | None]: ...
    def gather_object(self, value: Any, root: int = 0, *, async_op: bool = False) -> Any:
        """Return the objects of all ranks on rank `root`.

        Cost: an all_reduce of a number, a gather_v of the pickles, and one more gather_v for each array of 16 KiB or
        more in the object that has most of them.

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
        name = "gather_object"
        return self._now_or_later(name, lambda: self._gather_objects(name, value, root), value, async_op)

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
        name = "all_gather_object"
        return self._now_or_later(name, lambda: self._gather_objects(name, value, None), value, async_op)

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

        Cost: a broadcast of a number, a scatter_v of the pickles, and one more scatter_v for each array of 16 KiB or
        more in the object that has most of them, before which the root copies these arrays side by side.

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
        used = values if type(root) is not int or self._rank == root else None
        return self._now_or_later("scatter_object", lambda: self._scatter_objects(values, root), used, async_op)

    @overload
    def all_to_all_object(self, values: Sequence[Any], *, async_op: Literal[False] = ...) -> list[Any]: ...
    @overload
    def all_to_all_object(self, values: Sequence[Any], *, async_op: Literal[True]) -> Work[list[Any]]: ...
    def all_to_all_object(self, values: Sequence[Any], *, async_op: bool = False) -> Any:
        """Send an object to every rank, and return the objects that all ranks have sent to this one.

        Cost: one all_to_all_v of the pickles, and a copy of the arrays of 16 KiB or more, which are not pickled.

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
        name = "all_to_all_object"
        return self._now_or_later(name, lambda: self._exchange_objects(values), values, async_op)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _parts(self, call: str, root: int = -1) -> Parts:
        """Return the collectives of this group as parts of a composite call."""
        if (call, root) not in self._composite:
            self._composite[call, root] = Parts(CompositeDispatcher(self._dispatcher, call, root))
        return self._composite[call, root]

    def _compose(self, call: str, body: Callable[[Parts], Result], root: int = -1) -> Result:
        """Make a composite call, whose parts `body` makes, and return its result."""
        return self._parts(call, root)._make(call, body)

    def _now_or_later(self, operation: str, call: Callable[[], Any], used: Any, later: bool) -> Any:
        """Make the call now, or submit it. used: the object that this rank passes."""
        if not later:
            return call()
        dispatcher = self._dispatcher
        return dispatcher.worker.submit(
            buffer_check.around(call, dispatcher, operation, {"the object": used}), collective=operation
        )

    def _broadcast_object(self, value: Any, root: int) -> Any:
        with self._dispatcher.checking("broadcast_object") as check:
            root = given.as_root(root, self._size, *check)
            frame, buffers = packed(value, *check) if self._rank == root else (_nothing(), [])
        frame, buffers = self._compose(
            "broadcast_object", lambda parts: parts._broadcast_packed(frame, buffers, root), root
        )
        return value if self._rank == root else unpacked(frame, buffers)

    def _broadcast_packed(self, frame: np.ndarray, buffers: list[np.ndarray], root: int) -> Packed:
        """Return the object of the root as `packed` returns it there."""
        first = np.zeros(WORD + FIRST_BYTES, np.uint8)
        first[:WORD].view(np.int64)[0] = frame.size
        first[WORD:][: frame.size] = frame[:FIRST_BYTES]
        self.broadcast(first[None], root)  # of two dimensions, unlike all later parts
        length = int(first[:WORD].view(np.int64)[0])
        if self._rank != root:
            frame = np.empty(length, np.uint8)
            frame[:FIRST_BYTES] = first[WORD:][:length]
        if length > FIRST_BYTES:
            self.broadcast(frame[FIRST_BYTES:], root)
        if self._rank != root:
            buffers = [np.empty(size, np.uint8) for size in lengths(frame)]
        for buffer in buffers:
            self.broadcast(buffer, root)
        return frame, buffers

    def _gather_objects(self, operation: str, value: Any, root: int | None) -> list[Any] | None:
        """Gather the objects on rank `root`, or on all ranks."""
        with self._dispatcher.checking(operation) as check:
            root = None if root is None else given.as_root(root, self._size, *check)
            frame, buffers = packed(value, *check)
        at = -1 if root is None else root
        rows = self._compose(operation, lambda parts: parts._gather_packed(frame, buffers, root), at)
        return None if rows is None else [unpacked(*row) for row in rows]

    def _gather_packed(self, frame: np.ndarray, buffers: list[np.ndarray], root: int | None) -> list[Packed] | None:
        """Return the objects of all ranks as `packed` returns them; None on a rank that does not get them."""
        is_given = root is None or self._rank == root
        most = int(self.all_reduce(np.array([len(buffers)]), "max")[0])
        joined, counts = self._collect(frame, root)
        lengths_given = counts.tolist() if is_given else []
        frames = [joined[end - n : end] for n, end in zip(lengths_given, accumulate(lengths_given), strict=True)]
        found: list[list[np.ndarray]] = [[] for _ in frames]
        for k in range(most):
            part = buffers[k] if k < len(buffers) else _nothing()
            sizes = np.array([(lengths(one)[k : k + 1] or [0])[0] for one in frames], np.int64)
            displs = np.cumsum(-(-sizes // ALIGNED) * ALIGNED) - -(-sizes // ALIGNED) * ALIGNED
            if not is_given:
                self._collect(part, root)
                continue
            out = np.empty(displs[-1] + sizes[-1], np.uint8)
            joined, _ = self._collect(part, root, recv_displs=displs, out=out)
            for rank, (start, size) in enumerate(zip(displs, sizes, strict=True)):
                found[rank].append(joined[start : start + size])
        return list(zip(frames, found, strict=True)) if is_given else None

    def _collect(self, part: np.ndarray, root: int | None, **where: Any) -> Any:
        return self.all_gather_v(part, **where) if root is None else self.gather_v(part, root, **where)

    def _scatter_objects(self, values: Sequence[Any] | None, root: int) -> Any:
        with self._dispatcher.checking("scatter_object") as check:
            root = given.as_root(root, self._size, *check)
            rows = _all_packed(values, self._size, *check) if self._rank == root else []
        most = np.array([max((len(buffers) for _, buffers in rows), default=0)])

        def scatter(parts: Parts) -> list[np.ndarray]:
            mine = []
            parts.broadcast(most, root)
            for k in range(1 + int(most[0])):
                column = [([frame, *buffers] + [_nothing()] * (1 + most[0]))[k] for frame, buffers in rows]
                joined, counts = (np.concatenate(column), [one.size for one in column]) if rows else (None, None)
                mine.append(parts.scatter_v(joined, root, send_counts=counts))
            return mine

        mine = self._compose("scatter_object", scatter, root)
        return values[root] if values is not None and self._rank == root else unpacked(mine[0], mine[1:])

    def _exchange_objects(self, values: Sequence[Any]) -> list[Any]:
        with self._dispatcher.checking("all_to_all_object") as check:
            _check_values(values, self._size, "this rank", *check)
            blocks = [as_block(value, *check) for value in values]
        whole, sizes = np.concatenate(blocks), [block.size for block in blocks]
        joined, counts = self._compose("all_to_all_object", lambda parts: parts.all_to_all_v(whole, sizes))
        return [of_message(joined[end - n : end]) for n, end in zip(counts, np.cumsum(counts), strict=True)]


class Parts(Objects):
    """The collectives of a group as parts of a composite call. If one of them is composite itself, its parts are parts
    of the outer call."""

    _dispatcher: CompositeDispatcher

    def __init__(self, dispatcher: CompositeDispatcher):
        self._open(dispatcher)

    def _parts(self, call: str, root: int = -1) -> Parts:
        return self

    def _make(self, call: str, body: Callable[[Self], Result]) -> Result:
        """Have `body` make the parts. An exception that comes out of it ends the group."""

        def make() -> Result:
            try:
                return body(self)
            except BaseException as error:
                self._left_by(error)
                raise

        profile = self._dispatcher.profile
        with profile.composite(call, self._dispatcher.words) if profile else nullcontext():
            made: Result = self._dispatcher.worker.alone(call, make)
        return made

    def _left_by(self, error: BaseException) -> None:
        self._dispatcher.left_by(error)


def _nothing() -> np.ndarray:
    return np.empty(0, np.uint8)


def _all_packed(values: Any, size: int, operation: str, rank: int) -> list[Packed]:
    _check_values(values, size, "the root", operation, rank)
    return [packed(value, operation, rank) for value in values]


def _check_values(values: Any, size: int, giver: str, operation: str, rank: int) -> None:
    if not isinstance(values, Sequence):
        raise TypeError(f"{operation} on rank {rank}: {giver} gives a sequence of {size} objects, got {shown(values)}")
    if len(values) != size:
        raise ValueError(f"{operation} on rank {rank}: {len(values)} objects for {size} ranks")
