"""The items of `map` in chunks, whose size is found by measuring.

A chunk costs two packets, which is much for an item of a microsecond and nothing for one of a second. So chunks begin
with one item. They grow until one takes a rank about TARGET seconds. Towards the end they become smaller, so that no
rank has much more left than the others. The iterables are read when a chunk is made, and no further.
"""

import contextlib
import itertools
import time
from collections.abc import Iterable, Sized
from typing import Any

from shmcoll.engine.system.text import shown

TARGET = 0.005  # seconds
_GROWTH = 64  # times the last size, at most
_PARTS = 4  # a chunk at the end is not smaller than the usual one by more than this
_MOST = 1 << 13  # items


class Chunk:
    """Items with successive numbers, from `first` on. items: the arguments of each. done: how many have results. file:
    that of its packet."""

    __slots__ = ("done", "file", "first", "items")

    def __init__(self, first: int, items: list[tuple[Any, ...]]):
        self.first = first
        self.items = items
        self.done = 0
        self.file: Any = None

    def rest(self) -> list["Chunk"]:
        """Return a chunk for each item without a result."""
        return [Chunk(self.first + at, [self.items[at]]) for at in range(self.done, len(self.items))]


class Chunks:
    """The chunks of iterables, from which the arguments of an item are taken in step. size: of each chunk; None: to be
    found. nprocs: the number of ranks.

    length: the number of items, if the iterables know theirs. count: how many have been read.
    """

    def __init__(self, iterables: tuple[Iterable[Any], ...], size: int | None, nprocs: int):
        sizes = [_length(one) for one in iterables]
        self.length = min(known) if len(known := [one for one in sizes if one is not None]) == len(sizes) else None
        self.count = 0
        self._step = size or (1 if self.length is None else _MOST)  # how many are read before the time is looked at
        self._items = zip(*iterables, strict=False)
        self._nprocs = nprocs
        self._size, self._is_fixed = size or 1, size is not None
        self._seconds = 0.0  # of an item
        self._error: Exception | None = None

    def next(self) -> Chunk | None:
        """Return the next chunk; None if there is nothing left. Raises what an iterable raises, after the items that
        came before."""
        if self._error:
            raise self._error
        first, size = self.count, self._size
        if self.length is not None and not self._is_fixed:
            size = min(size, max((self.length - first) // (2 * self._nprocs), size // _PARTS, 1))
        items: list[tuple[Any, ...]] = []
        latest = time.perf_counter() + TARGET  # ranks wait while an iterable is slow
        try:
            while len(items) < size and time.perf_counter() < latest:
                before = len(items)
                items += itertools.islice(self._items, min(size - before, self._step))
                if len(items) == before:
                    break
        except Exception as e:
            self._error = e
            if not items:
                raise
        self.count += len(items)
        return Chunk(first, items) if items else None

    @property
    def is_over(self) -> bool:
        """Whether the iterables have ended, after `next` has returned None."""
        return True

    def described(self, item: tuple[Any, ...]) -> str:
        """Return an item in short, for a message."""
        return shown(item[0] if len(item) == 1 else item)

    def function(self, item: tuple[Any, ...]) -> None:
        """Return None: the function is that of the call."""

    def note(self, items: int, seconds: float) -> None:
        """Note that a rank has needed so long for so many items."""
        if self._is_fixed:
            return
        each = seconds / items
        # What another program's use of the cores has slowed down counts less
        self._seconds = min(each, self._seconds + (each - self._seconds) / 4) if self._seconds else each
        self._size = max(1, min(int(TARGET / max(self._seconds, 1e-9)), _GROWTH * items, _MOST))


def _length(iterable: Iterable[Any]) -> int | None:
    with contextlib.suppress(TypeError):  # a class may have a `__len__` that says so
        return len(iterable) if isinstance(iterable, Sized) else None
    return None
