"""probe: describes the next message, which stays. mprobe: takes the next message, which no other call can receive then.

A thread that probes keeps no other thread from calling. It sleeps in native code only without a turn, where it gives
way as a receive does. If it cannot enter, it takes its turn, looks for its message, and tries again after a nap.

A message that fits a posted receive belongs to that receive. So while receives are posted, the thread first completes,
in its turn, the messages that have arrived for them.
"""

import time
from typing import Any, NamedTuple

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.array_rules import check_apart, check_unmasked
from shmcoll.calls.pickling import of_message
from shmcoll.calls.recv import go_on, wanted
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.messages.recv import FETCH, MARK, TRY
from shmcoll.engine.messages.ring_buffers import ARRAY, WHOLE
from shmcoll.engine.system.tracebacks import Border
from shmcoll.runtime import helpers, waiting
from shmcoll.runtime.dispatcher import Dispatcher


class Envelope(NamedTuple):
    """The description of a message: the rank that sent it, its tag, and the dtype and shape of its array.

    For an object, the dtype is None, and the shape is the number of its bytes.
    """

    source: int
    tag: int
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]


class Message(Border):
    """A message that `mprobe` has taken. Only its own `recv` returns the contents."""

    def __init__(self, envelope: Envelope, memory: np.ndarray, name: int):
        self.envelope = envelope
        self._memory: np.ndarray | None = memory
        self._name = name

    def recv(self, out: Any = None) -> Any:
        """Return the array or the object that was sent.

        Args:
            out: for an array: an array of its dtype and at least as many elements, which is filled in C order.

        Returns:
            The array or the object; with `out`, the part of it that the message fills, as from `comm.recv`.

        Raises:
            TypeError: the message has another dtype than `out`, or is an object. It can still be received.
            ValueError: the message has more elements than `out`, and can still be received. Or it has been received.
        """
        operation, memory, (_, _, dtype, shape) = "Message.recv", self._memory, self.envelope
        if memory is None:
            raise ValueError(f"{operation} on rank {self._name}: this message has been received already")
        view = given.as_memory(out)
        if view is not None:
            if not isinstance(view, np.ndarray):
                raise TypeError(f"{operation} on rank {self._name}: out must be an array, got {type(out).__name__}")
            check_unmasked(view, "out", operation, self._name)
            if dtype is None or view.dtype != dtype:  # None is a name of float64, too
                sent = "is an object" if dtype is None else f"has dtype {dtype}"
                raise TypeError(f"{operation} on rank {self._name}: the message {sent}, out has {view.dtype}")
            if view.size < memory.size or not view.flags.writeable:
                why = f"has room for {view.size}" if view.size < memory.size else "is read-only"
                raise ValueError(f"{operation} on rank {self._name}: the message has {memory.size} elements, out {why}")
            check_apart(view, "out", operation, self._name)
        self._memory = None
        if dtype is None:
            return of_message(memory)
        if view is None:
            return memory.reshape(shape)
        view.flat[: memory.size] = memory.reshape(-1)
        return out if view.size == memory.size else view.reshape(-1)[: memory.size]

    def __repr__(self) -> str:
        return f"<shmcoll.Message {self.envelope}>"


def probe(dispatcher: Dispatcher, operation: str, source: Any, tag: Any, *, waits: bool, takes: bool) -> Any:
    """Return the `Envelope` of the first message that fits. A call that `takes` the message returns a `Message`.

    A call that does not wait returns None if no message has arrived.
    """
    with dispatcher.checking(operation) as check:
        source, tag = wanted(dispatcher, source, tag, *check)
    entry, posted = dispatcher.routine("recv"), dispatcher.posted
    found: Envelope | Message | None = None

    def look() -> int:
        nonlocal found
        in_turn = dispatcher.worker.turns.is_mine()
        phase = FETCH if waits and not in_turn else TRY
        if not posted.is_empty():
            if not in_turn:
                return c.BUSY
            posted.complete_what_has_come()
        if waits and in_turn:  # FETCH finds why no message can arrive. Another thread of this rank may send to it
            from_others = source != dispatcher.rank and dispatcher.size > 1
            phase = FETCH if from_others and posted.cannot_come(source) else TRY
        try:
            status = entry(None, None, phase, source, tag, ARRAY)
            if phase == FETCH and (status == c.GIVES_WAY or (status == c.SEND_FIRST and helpers.others_run())):
                return c.BUSY
            if status != c.FOUND:
                return c.OK if status == c.NOTHING_YET and phase == TRY else status
            if posted.wants(*dispatcher.buffers.found):
                return entry(None, None, MARK, source, tag, ARRAY)
            envelope = _envelope(dispatcher)
            if not takes:
                found = envelope
                return entry(None, None, MARK, source, tag, ARRAY)
            form = WHOLE if envelope.dtype is None else ARRAY
            status, memory = go_on(dispatcher, entry, None, source, tag, form)
            if status == c.GIVES_WAY:  # its sender has taken it back
                return c.BUSY
            if status < 0:
                found = Message(envelope, memory, dispatcher.failures.name)
            return status
        except BaseException:
            dispatcher.left(operation)
            raise

    limit = waiting.Limit(dispatcher.group.arena, dispatcher.timeout)
    while True:
        dispatcher.complete(operation, look)
        if found is not None or not waits:
            return found
        if limit.has_passed():
            dispatcher.words[c.ACTIVE // WORD] = c.ENDED
            raise dispatcher.failures.error(operation, c.TIMEOUT_PASSED)
        time.sleep(waiting.SOON)


def _envelope(dispatcher: Dispatcher) -> Envelope:
    buffers = dispatcher.buffers
    return Envelope(*buffers.found, None if buffers.found_object else buffers.found_dtype, buffers.found_shape)
