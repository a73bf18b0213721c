"""`shmcoll.map`: the items of a list, each to the next rank that is free.

The items are pickled one by one, into one shared array (`shared_memory.py`). A second array holds the end of each item.
A third array holds one word: the number of the next item. To take an item, a rank locks the file of that word
(`fcntl.lockf`), reads the word, adds one, and unlocks. The kernel grants the lock to one process at a time, and takes
it back from a process that ends, so no rank waits for it forever. A rank that fails sets the word to the number of all
items: the others take no more.

A fourth array has a word for each rank: the number of the item that the rank has, or -1. The caller reads it when the
call has ended, to say which items were not finished.
"""

import contextlib
import fcntl
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from shmcoll.errors import CollectiveMismatch, CollectiveTimeout, InternalError, RankFailed
from shmcoll.runner import shared_memory
from shmcoll.runner.pickling import Sending
from shmcoll.runner.unsendable import unsendable_in_words
from shmcoll.runtime import user_code


class Done(list[tuple[int, Any]]):
    """The numbers of items and their results."""


class WorkQueue:
    """The object that every rank gets: the function, and the items."""

    def __init__(self, fn: Callable[..., Any], items: list[Any], nprocs: int, sending: Sending):
        self.fn = fn
        with unsendable_in_words(*((f"item {number}", item) for number, item in enumerate(items))):
            pickled = [sending.dumps(item) for item in items]
        self._ends = shared_memory.shared(np.cumsum([len(one) for one in pickled], dtype=np.int64))
        self._pickles = shared_memory.shared(np.frombuffer(b"".join(pickled), np.uint8))
        self._next = shared_memory.shared(np.zeros(1, np.int64))
        self._taken = shared_memory.shared(np.full(nprocs, -1, np.int64))

    def __call__(self) -> Done:
        """Take items, in a rank, until all have been taken."""
        done, rank = Done(), int(os.environ["RANK"])
        while (number := self._take()) < len(self._ends):
            self._taken[rank] = number
            try:
                done.append((number, user_code.call(self._perform, number)))
            except BaseException as e:
                with self._locked():
                    self._next[0] = len(self._ends)
                with contextlib.suppress(Exception):  # its class may forbid new attributes
                    e.add_note(f"item {number} of shmcoll.map")
                    if isinstance(e, (CollectiveMismatch, CollectiveTimeout, RankFailed)):
                        e.add_note("The ranks have different items, so fn cannot call collectives: use shmcoll.run")
                raise
            self._taken[rank] = -1
        return done

    def item_of(self, rank: int) -> int | None:
        """Return the number of the item that a rank has, or had when it ended."""
        number = int(self._taken[rank])
        return number if number >= 0 else None

    def _take(self) -> int:
        with self._locked():
            number = int(self._next[0])
            self._next[0] = number + (number < len(self._ends))
            return number

    def _perform(self, number: int) -> Any:
        begin = int(self._ends[number - 1]) if number else 0
        return self.fn(pickle.loads(self._pickles[begin : int(self._ends[number])].data))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        region = shared_memory.region_of(self._next)
        assert region is not None
        fcntl.lockf(region.fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(region.fd, fcntl.LOCK_UN)


def in_order(results: list[list[tuple[int, Any]]], items: int) -> list[Any]:
    """Return the results of all ranks, in the order of the items. Raises `InternalError` if one is missing."""
    found = dict(pair for of_rank in results for pair in of_rank)
    if missing := [number for number in range(items) if number not in found]:
        raise InternalError(f"shmcoll.map: {len(found)} results for {items} items; item {missing[0]} is missing")
    return [found[number] for number in range(items)]
