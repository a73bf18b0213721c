"""The parts of calls for objects. Each call has two methods: the first exchanges the rows, and returns the result or
`More`; then the other one makes all other parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from shmcoll.calls.pickling import ALIGNED, Packed, Received, as_block, framed, lengths, of_block, unpacked
from shmcoll.communicator.collectives import Collectives
from shmcoll.communicator.object_rows import MOST_EQUAL, More, Rows
from shmcoll.engine.layout import WORD


class ObjectParts(Collectives):
    """The parts of calls for objects, as methods of `objects.Parts`."""

    operator_found: int
    _free_rows: list[Rows]  # that no call uses: of another thread, or one that a handler has interrupted

    def _broadcast_row(self, mine: Packed | None, root: int) -> Received | More:
        """Return the object of the root."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        if mine:
            rows.put(0, *mine)
        self.broadcast(rows.mine, root)
        told = rows.get()
        self._free_rows.append(rows)
        return told

    def _broadcast_rest(self, more: More, mine: Packed | None, root: int) -> Received:
        if more.buffers == 0:
            data = np.frombuffer(_to_move(mine[0]), np.uint8) if mine else np.empty(more.longest, np.uint8)
            self.broadcast(data, root)
            return data.data
        length = more.longest + (1 + more.buffers) * WORD
        frame = np.frombuffer(_to_move(framed(*mine)), np.uint8) if mine else np.empty(length, np.uint8)
        self.broadcast(frame, root)
        buffers = mine[1] if mine else [np.empty(size, np.uint8) for size in lengths(frame)]
        for buffer in buffers:
            self.broadcast(buffer, root)
        return unpacked(frame, buffers)

    def _gather_rows(self, mine: Packed, root: int | None, operator: int = 0) -> Sequence[Received] | More:
        """Return the objects of all ranks. operator: that of this rank (`Rows`); `operator_found` is that of the root
        afterwards."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        rows.put(0, *mine, operator)
        self.all_gather(rows.mine, out=rows.all)
        told = rows.get_all()
        self.operator_found = 0 if root is None or type(told) is More else rows.operator_of(root)
        self._free_rows.append(rows)
        return told

    def _gather_rest(self, more: More, mine: Packed, root: int | None, _operator: int = 0) -> Sequence[Received]:
        """Return the objects of all ranks; nothing on a rank that does not get them."""
        is_given = root is None or self._rank == root
        if more.are_equal(self._size):
            x = np.frombuffer(mine[0].ljust(more.longest, b"\0"), np.uint8)
            out = np.empty(self._size * more.longest, np.uint8) if is_given else None
            self.all_gather(x, out=out) if root is None else self.gather(x, root, out=out)
            return [] if out is None else _cut(out, self._size)
        head = WORD if more.buffers else 0  # a pickle needs no frame if no object has buffers
        frame = np.frombuffer(framed(*mine) if head else mine[0], np.uint8)
        if not is_given:
            for part in [frame, *mine[1], *[_nothing()] * (more.buffers - len(mine[1]))]:
                self._collect(part, root)
            return []
        sizes = [(1 + count) * head + length for count, length in zip(more.counts, more.lengths, strict=True)]
        joined, _ = self._collect(frame, root, out=np.empty(sum(sizes), np.uint8))
        frames = [joined[end - n : end] for n, end in zip(sizes, accumulate(sizes), strict=True)]
        if not head:
            return [one.data for one in frames]
        found: list[list[np.ndarray]] = [[] for _ in frames]
        for k in range(more.buffers):
            part = mine[1][k] if k < len(mine[1]) else _nothing()
            sizes = [(lengths(one)[k : k + 1] or (0,))[0] for one in frames]
            ends = [*accumulate((-(-size // ALIGNED) * ALIGNED for size in sizes), initial=0)]
            out = np.empty(ends.pop(), np.uint8)
            joined, _ = self._collect(part, root, recv_displs=ends, out=out)
            for rank, (start, size) in enumerate(zip(ends, sizes, strict=True)):
                found[rank].append(joined[start : start + size])
        return [unpacked(*one) for one in zip(frames, found, strict=True)]

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
        if more.are_equal(self._size):
            out = np.empty(more.longest, np.uint8)
            joined, counts = (_side_by_side(mine, out.size), [out.size] * self._size) if mine else (None, None)
            self.scatter_v(joined, root, send_counts=counts, out=out)  # a scatter would look like the first part
            return out.data
        columns: list[Any] = [None] * (1 + more.buffers)
        if mine:
            frames = [[np.frombuffer(framed(*one), np.uint8), *one[1]] for one in mine]
            columns = [[(parts + [_nothing()] * more.buffers)[k] for parts in frames] for k in range(len(columns))]
        got = []
        for column in columns:
            joined, counts = (np.concatenate(column), [one.size for one in column]) if mine else (None, None)
            got.append(self.scatter_v(joined, root, send_counts=counts))
        return unpacked(got[0], got[1:])

    def _exchange_rows(self, mine: list[Packed]) -> Sequence[Received] | More:
        """Return the objects that the ranks have sent to this one."""
        rows = self._free_rows.pop() if self._free_rows else Rows(self._size)
        rows.put_all(mine)
        self.all_to_all(rows.all, out=rows.all)
        told = rows.get_all()
        self._free_rows.append(rows)
        return told

    def _exchange_rest(self, more: More, mine: list[Packed]) -> Sequence[Received]:
        if more.are_equal(self._size):
            out = np.empty(self._size * more.longest, np.uint8)
            self.all_to_all(_side_by_side(mine, more.longest), out=out)
            return _cut(out, self._size)
        blocks = [as_block(*one) for one in mine]
        joined, counts = self.all_to_all_v(np.concatenate(blocks), [block.size for block in blocks])
        return [of_block(joined[end - n : end]) for n, end in zip(counts, np.cumsum(counts), strict=True)]


def _to_move(data: bytes) -> bytes | bytearray:
    """Return bytes that native code takes from the root of a broadcast: in memory that can be written, which is not
    worth a copy of many bytes."""
    return data if len(data) > MOST_EQUAL else bytearray(data)


def _side_by_side(objects: Sequence[Packed], length: int) -> np.ndarray:
    """Return pickles in blocks of equal lengths."""
    return np.frombuffer(b"".join([data.ljust(length, b"\0") for data, _ in objects]), np.uint8)


def _cut(joined: np.ndarray, size: int) -> Sequence[Received]:
    """Return the pickles in blocks of equal lengths, with what follows each of them."""
    memory, length = joined.data, len(joined) // size
    return [memory[i * length : (i + 1) * length] for i in range(size)]


def _nothing() -> np.ndarray:
    return np.empty(0, np.uint8)
