"""What the calls for objects of one name and one root share on one communicator, prepared once.

The first part of such a call is one native call, which exchanges the rows (`object_rows.py`). Usually they hold all
objects, and nothing follows. So native code lets the call in or refuses it as every other collective, and Python does
nothing about other threads. If a row says that the call goes on, the native entry writes COLLECTIVE before any other
thread can run, and answers GOES_ON_ALONE (`engine/native/object_rows.py`). Then the collectives of other threads are
refused until the last part has ended, when COLLECTIVE is set to 0. The answer is GOES_ON if COLLECTIVE has this thread
already, because the call is within another one, or if this thread has the turn. Then COLLECTIVE is left alone.

If native code does not let the call in, nothing has been sent. All its parts are made as those of any other composite
call: `Turns.alone`.

An exception from the first part or from a later one ends the group, and only then is COLLECTIVE set to 0. A handler may
raise when the native entry has written COLLECTIVE, and before its answer is stored: COLLECTIVE says so itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pickle import loads
from typing import Any

from shmcoll.calls.pickling import Packed, loaded
from shmcoll.communicator.object_parts import ObjectParts
from shmcoll.communicator.object_rows import Rows
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.native.tables import CALL_BITS
from shmcoll.runtime.turns import REFUSED

#: the collective that exchanges the rows of a call
EXCHANGES = {
    "broadcast_object": "broadcast",
    "gather_object": "all_gather",  # all ranks must know whether other parts follow
    "all_gather_object": "all_gather",
    "scatter_object": "scatter",
    "all_to_all_object": "all_to_all",
    "reduce_object": "all_gather",
    "all_reduce_object": "all_gather",
    "scan_object": "all_gather",
    "exscan_object": "all_gather",
}

_COLLECTIVE = c.COLLECTIVE // WORD
_NOT_BEGUN = (c.NEEDS_PYTHON, c.BUSY, c.NOT_ALONE, c.NO_MEMORY)


class ObjectCall:
    """A call for objects from one root, -1 if it has none. parts: the `Parts` of `objects.py` that makes its parts.
    whole: the dispatcher of calls by themselves. rank: the name of this rank in messages."""

    __slots__ = ("_entry", "_exchange", "_free", "_mark", "_name", "_parts", "_whole", "_words", "rank", "root")

    def __init__(self, name: str, root: int, parts: Any, whole: Any):
        self._name, self.root, self._parts, self._whole = name, root, parts, whole
        self._exchange = EXCHANGES[name]
        self.rank = whole.failures.name
        self._entry, self._mark = parts._row_entry(self._exchange)
        self._words = memoryview(whole.words)
        self._free: list[Rows] = []  # that no call uses: of another thread, or one that a handler has interrupted

    def free_rows(self) -> Rows:
        """Return rows that no other call uses."""
        return self._free.pop() if self._free else self._new_rows()

    def _new_rows(self) -> Rows:
        return Rows(self._whole.size, self._exchange, self.root, self._whole.rank, self._mark)

    def give_back(self, rows: Rows) -> None:
        """Take rows back that the call does not need any more."""
        self._free.append(rows)

    def broadcast(self, mine: Packed | None) -> Any:
        """Return the object of the root on the other ranks. mine: that object, on the root."""
        rows = self._free.pop() if self._free else self._new_rows()
        if mine:
            rows.put(*mine)
        told = self.make(rows, ObjectParts._broadcast_rest, mine, self.root)
        got = None if mine else loads(rows.pickle) if told is None else loaded(told)
        self._free.append(rows)
        return got

    def gather(self, mine: Packed, kept: int, value: Any) -> list[Any] | None:
        """Return the objects of all ranks on the root, or on all ranks. kept: the rank whose object is `value` itself,
        or -1."""
        rows = self._free.pop() if self._free else self._new_rows()
        root = None if self.root == -1 else self.root
        rows.put(*mine)
        told: Sequence[Any] | None = self.make(rows, ObjectParts._gather_rest, mine, root)
        got = None
        if root is None or root == self._whole.rank:
            load, pickles = (loads, rows.pickles) if told is None else (loaded, told)
            got = [value if i == kept else load(one) for i, one in enumerate(pickles)]
        self._free.append(rows)
        return got

    def scatter(self, mine: list[Packed] | None) -> Any:
        """Return this rank's object of those of the root, except on the root. mine: the objects, on the root."""
        rows = self._free.pop() if self._free else self._new_rows()
        if mine:
            rows.put_all(mine)
        told = self.make(rows, ObjectParts._scatter_rest, mine, self.root)
        got = None if mine else loads(rows.pickle) if told is None else loaded(told)
        self._free.append(rows)
        return got

    def exchange(self, mine: list[Packed], kept: int, value: Any) -> list[Any]:
        """Return the objects that the ranks have sent to this one. kept, value: as for `gather`."""
        rows = self._free.pop() if self._free else self._new_rows()
        rows.put_all(mine)
        told: Sequence[Any] | None = self.make(rows, ObjectParts._exchange_rest, mine)
        load, pickles = (loads, rows.pickles) if told is None else (loaded, told)
        got = [value if i == kept else load(one) for i, one in enumerate(pickles)]
        self._free.append(rows)
        return got

    def make(self, rows: Rows, rest: Callable[..., Any], *given: Any) -> Any:
        """Exchange the rows. If they say that the call goes on, return the result of `rest`, which makes the other
        parts; else None.

        rest: called with the parts, what the rows say, and `given`.
        """
        if (profile := self._whole.profile) and not profile.is_inside:
            with profile.composite(self._name, self._whole.words):
                return self.make(rows, rest, *given)
        status = None
        try:
            status = self._entry(*rows.arguments)
            return self._go_on(status, rows, rest, given) if status else None
        except BaseException as error:
            self._left(status, error)
            raise

    def _go_on(self, status: int, rows: Rows, rest: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        if status == c.GOES_ON_ALONE:
            made = rest(self._parts, rows.told(), *given)
            self._words[_COLLECTIVE] = 0
            return made
        if status == c.GOES_ON:
            return rest(self._parts, rows.told(), *given)
        if status not in _NOT_BEGUN:
            raise self._whole.failures.error(self._exchange, status)
        self._whole.check_open(self._name)
        turns = self._whole.worker.turns
        made = turns.alone(self._name, self._in_turn, (rows, rest, given), self._parts._left_by)
        if made is REFUSED:
            raise self._whole.failures.error(self._name, c.NOT_ALONE)
        return made

    def _in_turn(self, rows: Rows, rest: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        status = self._parts._move_rows(self._exchange, self._entry, rows, self.root)
        return rest(self._parts, rows.told(), *given) if status else None

    def _left(self, status: int | None, error: BaseException) -> None:
        """End the group after an exception. status: the answer of the native entry; None without one."""
        if status is None:
            self._parts._dispatcher.left(self._exchange)
        else:
            self._parts._left_by(error)
        is_ours = status is None and self._words[_COLLECTIVE] >> CALL_BITS == threading.get_ident()
        if is_ours or status == c.GOES_ON_ALONE:
            self._words[_COLLECTIVE] = 0
