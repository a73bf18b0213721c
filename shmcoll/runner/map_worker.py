"""A rank that works on the items of its caller (`map_call.py`): take a chunk, call the function, send the results.

Two sockets lead from the caller to all ranks and back. A chunk is a packet (`packets.py`), which the kernel gives to
the first rank that reads. So a rank that is free has the next chunk, and no rank waits for another. A rank that waits
for a chunk is woken by the caller, who closes its end after the last one, or is ended by the server (`protocol.py`).

The rank writes its own word of `state`, and the caller reads it: FREE while the rank has no chunk, else the number of
its item. The caller writes the last word: it is 1 when the ranks are to leave the items that they have not begun.

Results are sent when the chunk is done, and before if FLUSH seconds have passed: they do not wait for a slow item
behind them. They are sent before an exception ends the rank, too.
"""

import contextlib
import functools
import io
import os
import pickle
import socket
import time
from collections.abc import Callable
from typing import Any

from shmcoll.errors import ArenaError
from shmcoll.runner import answers, packets, pickling, shared_memory, unsendable
from shmcoll.runner.packets import HAS_ERRORS, LAST, LET_GO, File, Packet
from shmcoll.runner.pickling import LARGE, Unsendable
from shmcoll.runtime import refused_calls, user_code

FREE = -1  # a word of the state
FLUSH = 0.02  # seconds
LOOK = 0.0005  # seconds between two looks at the clock, if all items take as long as those before
_SMALL = frozenset({int, float, bool, str, bytes, complex, type(None)})  # they have no memory of numpy's

_forks: list[None] = []  # not empty in a process that a function has forked, if the function returns there as well
os.register_at_fork(after_in_child=functools.partial(_forks.append, None))

# kinds of packets
CHUNK = 1
RESULTS = 2
FAILED = 4  # the rank has failed before its first chunk; its body is the exception
UNLOADABLE = 3  # the answer to a chunk that cannot be unpickled; its body is the exception


class Worker:
    """What every rank of a call gets. of: the function that users call, such as "shmcoll.map". state: described above.
    begin: called first. stops: whether an exception of an item ends the work."""

    def __init__(
        self,
        of: str,
        fn: Callable[..., Any],
        tasks: Any,
        results: Any,
        state: Any,
        begin: Callable[[], object] | None,
        *,
        stops: bool,
    ):
        self.of = of
        self.fn = fn
        self.stops = stops
        self._begin = begin
        self._has_errors = False  # whether one of the results that have not been sent is an exception
        self._tasks, self._results, self._state = tasks, results, state

    def __call__(self) -> None:
        """Work, in a rank, until the caller has no more items."""
        self._rank = int(os.environ["RANK"])
        _forks.clear()
        self._words = memoryview(self._state)  # faster than the array
        tasks, self._sock = socket.socket(fileno=self._tasks), socket.socket(fileno=self._results)
        with tasks, self._sock, refused_calls.during(self.of):
            try:
                if self._begin:
                    user_code.call(self._begin)
            except Exception as e:
                self._send(FAILED, FREE, [answers.told(e)], time.perf_counter())
                return
            while not self._state[-1] and (packet := packets.receive(tasks)):
                goes_on = self._work(packet)
                del packet
                self._state[self._rank] = FREE
                if not goes_on:
                    return

    def _work(self, packet: Packet) -> bool:
        """Work on a chunk. Returns whether to go on."""
        begin, first, memory = time.perf_counter(), packet.first, packet.memory
        state, rank, fn, forks = self._words, self._rank, self.fn, _forks
        state[rank] = first
        try:
            items = user_code.call(_loaded, packet)
        except Exception as e:
            with contextlib.suppress(Exception):  # its class may forbid new attributes
                e.add_note("while loading an item: what it needs must be importable in a rank")
            self._send(UNLOADABLE, first, [answers.told(e)], begin)
            return True
        packet.body, packet.buffers = b"", []  # the items hold their own
        values: list[Any] = []
        latest, number, goes_on, look = begin + FLUSH, first, True, first
        items.reverse()  # each is forgotten when its turn is over
        try:
            while items and goes_on:
                if number >= look:
                    if (now := time.perf_counter()) > latest and values:
                        self._send(RESULTS, number - len(values), values, begin)
                        values, latest = [], time.perf_counter() + FLUSH
                    look = number + max(int(LOOK * (number - first) / (now - begin)), 1)
                state[rank] = number
                try:
                    value = fn(*items.pop())
                    if forks:
                        user_code.end_fork(None)
                    values.append(value)
                    if type(value) not in _SMALL and getattr(value, "nbytes", 0) >= LARGE:
                        latest, look = 0.0, number  # its memory is freed with it alone
                    del value
                except BaseException as e:
                    if forks:
                        user_code.end_fork(e)
                    if isinstance(e, KeyboardInterrupt):
                        raise
                    if isinstance(e, SystemExit) and self.stops:
                        raise
                    values.append(answers.told(e))
                    goes_on = not self.stops
                    self._has_errors = True
                number += 1
                goes_on = goes_on and not state[-1]
        except BaseException:
            with contextlib.suppress(Exception):
                self._send(RESULTS, number - len(values), values, begin)
            raise
        flags = LAST
        if memory is not None and memory() is None:
            flags |= LET_GO
        self._send(RESULTS, number - len(values), values, begin, flags)
        return goes_on

    def _send(self, kind: int, first: int, values: list[Any], begin: float, flags: int = 0) -> None:
        body, large = self._pickled(first, values)
        file = None
        try:
            file = File(length) if (length := packets.length_of(body, large)) else None
        except (OSError, ArenaError) as e:  # there is no room for it
            self._has_errors = True
            (body, large), self._state[-1] = _dumped([answers.told(e)] * len(values)), self.stops or self._state[-1]
        try:
            flags |= HAS_ERRORS * self._has_errors
            self._has_errors = False
            packet = Packet(kind, self._rank, first, len(values), flags, time.perf_counter() - begin, body)
            packets.send(self._sock, packet, large, file)
        finally:
            if file:
                file.close()

    def _pickled(self, first: int, values: list[Any]) -> tuple[bytes, list[memoryview]]:
        """Return the pickle of results, and what is left out of it. A result that cannot be pickled is replaced by the
        error."""
        try:
            return _dumped(values)
        except Exception:
            for at, value in enumerate(values):
                try:
                    _dumped([value])
                except Exception as e:
                    values[at] = answers.told(_not_sendable(first + at, value, e))
                    self._has_errors = True
                    if self.stops:
                        self._state[-1] = 1
            return _dumped(values)


def _loaded(packet: Packet) -> list[tuple[Any, ...]]:
    with shared_memory.received(packet.descriptors):
        items, sources = pickle.loads(packet.body, buffers=packet.buffers)
    if sources:
        pickling.show_sources(sources)
    return items


def _dumped(values: list[Any]) -> tuple[bytes, list[memoryview]]:
    large: list[memoryview] = []
    with io.BytesIO() as file:
        pickling.dump_result(values, file, large)
        return file.getvalue(), large


def _not_sendable(number: int, value: Any, error: Exception) -> BaseException:
    if isinstance(error, (MemoryError, OSError)):
        return error
    why = str(error) if isinstance(error, Unsendable) else f"{type(error).__name__}: {error}"
    kind = answers.type_name(type(value))
    return TypeError(f"the result of item {number}, a {kind}, cannot be pickled: {why}{unsendable.instead(value)}")
