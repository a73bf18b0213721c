"""The parts of calls for objects. Each call has two methods: the first exchanges the rows, and returns the result or
`More`; then the other one makes all other parts.

These are the pickles, if the rows do not hold them, and then the first buffers of all objects, the second ones, and so
on. Buffers whose lengths every rank knows to be equal move without counts, which take 10 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from shmcoll.calls.pickling import ALIGNED, Packed, Received, framed, of_frame
from shmcoll.collectives.scatter import BOTH
from shmcoll.communicator.collectives import Collectives
from shmcoll.communicator.object_rows import More, Rows
from shmcoll.engine.layout import WORD, align

_MOST_COPIED = 64 << 10  # bytes


class ObjectParts(Collectives):
    """The parts of calls for objects, as methods of `objects.Parts`."""

    operator_found: int
    _free_rows: list[Rows]  # that no call uses: of another thread, or one that a handler has interrupted

    def _broadcast_row(self, mine: Packed | None, root: int) -> Received | More:
        """Return the object of the root."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        if mine:
            rows.put(*mine)
        self.broadcast(rows.mine, root)
        told = rows.get()
        self._free_rows.append(rows)
        return told

    def _broadcast_rest(self, more: More, mine: Packed | None, root: int) -> Received:
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
            self._dispatcher.run("broadcast", part, None, 0, root, 0, 0, BOTH, 0, 0)

    def _gather_rows(self, mine: Packed, root: int | None, operator: int = 0) -> Sequence[Received] | More:
        """Return the objects of all ranks. operator: what this rank passes (`Rows`). `operator_found` is that of the
        root afterwards, if no other part is needed."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        rows.put(*mine, operator)
        self.all_gather(rows.mine, out=rows.all)
        told = rows.get_all()
        self.operator_found = 0 if root is None or type(told) is More else rows.operator_of(root)
        self._free_rows.append(rows)
        return told

    def _gather_rest(self, more: More, mine: Packed, root: int | None, _operator: int = 0) -> Sequence[Received]:
        """Return the objects of all ranks; nothing on a rank that does not get them."""
        is_given = root is None or self._rank == root
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

    def _scatter_rows(self, mine: list[Packed] | None, root: int) -> Received | More:
        """Return this rank's object of those of the root."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        if mine:
            rows.put_all(mine)
        self.scatter(rows.all, root, out=rows.mine)
        told = rows.get()
        self._free_rows.append(rows)
        return told

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

    def _exchange_rows(self, mine: list[Packed]) -> Sequence[Received] | More:
        """Return the objects that the ranks have sent to this one."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        rows.put_all(mine)
        self.all_to_all(rows.all, out=rows.all)
        told = rows.get_all()
        self._free_rows.append(rows)
        return told

    def _exchange_rest(self, more: More, mine: list[Packed]) -> Sequence[Received]:
        pickles: Sequence[Any] | None = more.pickles
        sizes: Sequence[tuple[int, ...]] | None = more.sizes
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
