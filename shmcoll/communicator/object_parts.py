"""The parts of calls for objects that follow the exchange of the rows (`object_calls.py`): a method for each call.

These are the pickles, if the rows do not hold them, and then the first buffers of all objects, the second ones, and so
on. Buffers whose lengths every rank knows to be equal move without counts, which take 10 us.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from shmcoll.calls.pickling import ALIGNED, Made, Packed, Received, framed, of_frame
from shmcoll.collectives.scatter import BOTH
from shmcoll.communicator.collectives import Collectives
from shmcoll.communicator.object_rows import ALIKE, More
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD, align
from shmcoll.engine.system.bytes_memory import address_of_bytes, new_bytes, to_fill

_MOST_COPIED = 64 << 10  # bytes


class ObjectParts(Collectives):
    """The parts of calls for objects, as methods of `objects.Parts`."""

    def _broadcast_rest(self, more: More, mine: Packed | None, root: int) -> Received:
        if not mine and more.are_equal_bytes() and more.sizes:
            made = new_bytes(more.sizes[0][0])
            self.broadcast(to_fill(made), root)
            return Made(made)
        if more.pickles and more.sizes:
            data: Any = more.pickles[0]
            sizes = more.sizes[0]
        elif more.buffers == 0:
            whole = _to_move(mine[0]) if mine else np.empty(more.longest, np.uint8)
            self._broadcast_bytes(whole, root)
            return whole.data
        else:
            length = more.longest + (1 + more.buffers) * WORD
            frame = _to_move(framed(*mine)) if mine else np.empty(length, np.uint8)
            self._broadcast_bytes(frame, root)
            data, sizes = of_frame(frame)
        buffers = mine[1] if mine else [np.empty(size, np.uint8) for size in sizes]
        for buffer in buffers:
            self._broadcast_bytes(buffer, root)
        return data, buffers

    def _broadcast_bytes(self, part: np.ndarray, root: int) -> None:
        """Broadcast an array, which cannot be written on the root if it is of `bytes`."""
        if part.flags.writeable:
            self.broadcast(part, root)
        else:
            self._move("broadcast", part, None, 0, root, 0, 0, BOTH, 0, 0)

    def _move(self, operation: str, *arguments: Any) -> None:
        """Make a part with the arguments of its native entry."""
        entry = getattr(self, f"_{operation}") or self._load(operation)
        try:
            status = entry(*arguments)
        except BaseException:
            self._dispatcher.left(operation)
            raise
        if status in (c.BUSY, c.NEEDS_PYTHON):  # in turn, or over nodes
            self._dispatcher.run(operation, *arguments)
        elif status:
            raise self._dispatcher.failures.error(operation, status)

    def _gather_rest(self, more: More, mine: Packed, root: int | None) -> Sequence[Received]:
        """Return the objects of all ranks; nothing on a rank that does not get them."""
        is_given = root is None or self._rank == root
        if more.are_equal_bytes():
            return self._gather_bytes(mine[1][0], root)
        pickles: Sequence[Any] | None = more.pickles
        sizes: Sequence[tuple[int, ...]] | None = more.sizes
        if not pickles:
            length = more.longest
            if more.are_equal(self._size) or (more.buffers == 0 and min(more.lengths) == length):
                joined = self._gather_equal(np.frombuffer(mine[0].ljust(length, b"\0"), np.uint8), root)
                return [] if joined is None else _cut(joined, self._size)
            pickles, sizes = self._gather_frames(more, mine, root)
        found: list[list[np.ndarray]] = [[] for _ in pickles or ()]
        for k in range(more.buffers):
            part = mine[1][k] if k < len(mine[1]) else _nothing()
            lengths = [one[k] if k < len(one) else 0 for one in sizes or ()]
            joined = None
            if more.sizes and min(lengths) == max(lengths):
                joined = self._gather_equal(part, root)
                places: Sequence[int] = range(0, self._size * part.size, part.size)
            elif is_given:
                places, joined = _places(lengths)
                self._collect(part, root, recv_displs=places, out=joined)
            else:
                self._collect(part, root)
            if joined is not None:
                for one, begin, length in zip(found, places, lengths, strict=True):
                    one.append(joined[begin : begin + length])
        return list(zip(pickles, found, strict=True)) if is_given and pickles else []

    def _gather_bytes(self, part: np.ndarray, root: int | None) -> list[Made]:
        """Return the `bytes` of all ranks, which have one length; nothing on a rank that does not get them. Those of
        this rank stay where they are."""
        if root is not None and self._rank != root:
            self.gather(part, root)
            return []
        made = [part.base if rank == self._rank else new_bytes(part.size) for rank in range(self._size)]
        table = _addresses(made)
        self._move("all_gather" if root is None else "gather", part, None, 0, root or 0, 0, 0, address_of_bytes(table))
        return [Made(one) for one in made]

    def _gather_equal(self, part: np.ndarray, root: int | None) -> np.ndarray | None:
        """Return the parts of all ranks, which have one length, side by side; None on a rank that does not get them."""
        out = np.empty(self._size * part.size, np.uint8) if root is None or self._rank == root else None
        self.all_gather(part, out=out) if root is None else self.gather(part, root, out=out)
        return out

    def _gather_frames(
        self, more: More, mine: Packed, root: int | None
    ) -> tuple[Sequence[memoryview], Sequence[tuple[int, ...]]]:
        """Return the pickles of all ranks, and the sizes of the buffers of each; nothing on a rank that does not get
        them."""
        head = WORD if more.buffers else 0  # a pickle needs no frame if no object has buffers
        frame = np.frombuffer(framed(*mine) if head else mine[0], np.uint8)
        if root is not None and self._rank != root:
            self._collect(frame, root)
            return [], []
        sizes = [(1 + count) * head + length for count, length in zip(more.counts, more.lengths, strict=True)]
        joined, _ = self._collect(frame, root, out=np.empty(sum(sizes), np.uint8))
        frames = [joined[end - n : end] for n, end in zip(sizes, accumulate(sizes), strict=True)]
        if not head:
            return [one.data for one in frames], [()] * self._size
        pickles, lengths = zip(*map(of_frame, frames), strict=True)
        return pickles, lengths

    def _collect(self, part: np.ndarray, root: int | None, **where: Any) -> Any:
        return self.all_gather_v(part, **where) if root is None else self.gather_v(part, root, **where)

    def _scatter_rest(self, more: More, mine: list[Packed] | None, root: int) -> Received:
        """Return this rank's object. That of the root stays where it is."""
        data: Any = None
        sizes: Sequence[int | None] = [None] * more.buffers
        if more.pickles and more.sizes:
            data, sizes = more.pickles[0], more.sizes[0]
        elif more.are_equal(self._size):
            joined, counts = (_side_by_side(mine, more.longest), [more.longest] * self._size) if mine else (None, None)
            # A scatter would look like the first part
            out = np.empty(more.longest, np.uint8)
            self.scatter_v(joined, root, send_counts=counts, out=out)
            return out.data
        else:
            frame = self._deal([np.frombuffer(framed(*one), np.uint8) for one in mine or ()], root, None)
            data, _ = (None, ()) if mine else of_frame(frame)
        got = []
        for k, size in enumerate(sizes):
            parts = [one[1][k] if k < len(one[1]) else _nothing() for one in mine or ()]
            got.append(self._deal(parts, root, size))
        return mine[root] if mine else (data, got)

    def _deal(self, parts: list[np.ndarray], root: int, size: int | None) -> np.ndarray:
        """Return this rank's part of those of the root, except on the root. size: its length, if this rank knows it."""
        if not parts:
            out = None if size is None else np.empty(size, np.uint8)
            return self.scatter_v(None, root, out=out)
        parts[root] = _nothing()
        return self.scatter_v(_joined(parts), root, send_counts=[part.size for part in parts], out=parts[root])

    def _exchange_rest(self, more: More, mine: list[Packed]) -> Sequence[Received]:
        pickles: Sequence[Any] | None = more.pickles
        sizes: Sequence[tuple[int, ...]] | None = more.sizes
        if more.are_alike and more.operators[0] == ALIKE and pickles and sizes:
            if more.are_equal_bytes():
                return self._exchange_bytes([one[1][0] for one in mine])
            return list(zip(pickles, self._exchange_equal(sizes[0], mine), strict=True))
        if not pickles or not sizes:
            if more.are_equal(self._size):
                out = np.empty(self._size * more.longest, np.uint8)
                self.all_to_all(_side_by_side(mine, more.longest), out=out)
                return _cut(out, self._size)
            frames = [np.frombuffer(framed(*one), np.uint8) for one in mine]
            joined, counts = self.all_to_all_v(np.concatenate(frames), [frame.size for frame in frames])
            ends = np.cumsum(counts)
            found = [of_frame(joined[end - n : end]) for n, end in zip(counts, ends, strict=True)]
            pickles, sizes = zip(*found, strict=True)
        buffers: list[list[np.ndarray]] = [[] for _ in pickles]
        for k in range(more.buffers):
            parts = [one[1][k] if k < len(one[1]) else _nothing() for one in mine]
            lengths = [one[k] if k < len(one) else 0 for one in sizes]
            places, out = _places(lengths)
            self.all_to_all_v(_joined(parts), [part.size for part in parts], recv_displs=places, out=out)
            for one, begin, length in zip(buffers, places, lengths, strict=True):
                one.append(out[begin : begin + length])
        return list(zip(pickles, buffers, strict=True))

    def _exchange_equal(self, sizes: Sequence[int], mine: list[Packed]) -> list[list[np.ndarray]]:
        """Return the buffers of each object that this rank gets. Those of all objects of all ranks have these sizes."""
        buffers: list[list[np.ndarray]] = [[] for _ in mine]
        for k, length in enumerate(sizes):
            out = np.empty(self._size * length, np.uint8)
            self.all_to_all(np.concatenate([one[1][k] for one in mine]), out=out)
            for i, one in enumerate(buffers):
                one.append(out[i * length : (i + 1) * length])
        return buffers

    def _exchange_bytes(self, parts: list[np.ndarray]) -> list[Made]:
        """Return the `bytes` that the ranks have sent to this one, of one length on all ranks. Those of this rank for
        itself stay where they are."""
        length = parts[0].size
        given = [part.base for part in parts]
        made = [given[rank] if rank == self._rank else new_bytes(length) for rank in range(self._size)]
        tables = _addresses(given), _addresses(made), struct.pack("=2q", 1, self._size * length)
        self._move("all_to_all", parts[0], None, 0, 0, 0, 0, *(length,) * 5, *map(address_of_bytes, tables))
        return [Made(one) for one in made]


def _addresses(values: Sequence[Any]) -> bytes:
    """Return a table of the addresses of `bytes`."""
    return struct.pack(f"={len(values)}q", *map(address_of_bytes, values))


def _to_move(data: bytes) -> np.ndarray:
    """Return bytes that the root broadcasts: a few in memory that can be written, which native code reads sooner."""
    return np.frombuffer(data if len(data) > _MOST_COPIED else bytearray(data), np.uint8)


def _side_by_side(objects: Sequence[Packed], length: int) -> np.ndarray:
    """Return pickles in blocks of equal lengths."""
    return np.frombuffer(b"".join([data.ljust(length, b"\0") for data, _ in objects]), np.uint8)


def _cut(joined: np.ndarray, size: int) -> Sequence[Received]:
    """Return the pickles in blocks of equal lengths, with what follows each of them."""
    memory, length = joined.data, len(joined) // size
    return [memory[i * length : (i + 1) * length] for i in range(size)]


def _places(lengths: Sequence[int]) -> tuple[list[int], np.ndarray]:
    """Return where buffers of these lengths begin side by side, and the memory for all of them."""
    places = [*accumulate((align(length, ALIGNED) for length in lengths), initial=0)]
    return places[:-1], np.empty(places[-1], np.uint8)


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the bytes of all parts in a row. That of a single one is no copy."""
    some = [part for part in parts if part.size]
    return some[0] if len(some) == 1 else np.concatenate(parts)


def _nothing() -> np.ndarray:
    return np.empty(0, np.uint8)
