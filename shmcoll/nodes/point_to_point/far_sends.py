"""What one rank of a group sends to other nodes, in Python: messages that native code does not send, and what that has
left of others. `far_messages.py` has the whole picture.

A receiver begins to receive the bytes when it reads the head, so a sender does not wait for a receiver that is
elsewhere. It copies what it sends, because `x` may be changed when `send` returns. Only if the receiver says at once
that it waits for the bytes, and does nothing else, native code sends them from `x` itself, and the call waits until
they have left.

A synchronous send ends when the receiver has taken its message: it sends back the number of the message (RECEIPT).

Why nobody waits forever: a synchronous send waits for its receipt for `timeout` seconds at most, and any send as long
for the bytes of `x` itself to leave.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.diagnostics.call_site import Site, here
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.messages.foreign_arrays import description
from shmcoll.engine.messages.ring_buffers import ARRAY, FOREIGN_TYPE, WHOLE
from shmcoll.nodes.mpi import waiting
from shmcoll.nodes.mpi.wire import MESSAGE, PAYLOAD, RECEIPT, Pending, as_bytes, at_address
from shmcoll.nodes.point_to_point.matching import Matching, pause
from shmcoll.nodes.point_to_point.message_limits import NOT_TAKEN, Limits
from shmcoll.nodes.point_to_point.message_words import INLINE_BYTES, OBJECT_CODE
from shmcoll.nodes.point_to_point.unexpected import head
from shmcoll.runtime.work import Work, Worker

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher


class FarSends:
    """The sends of one group. watch: has the worker serve the receipts that are awaited."""

    def __init__(self, dispatcher: "NodesDispatcher", matching: Matching, limits: Limits, watch: Callable[[], None]):
        self._dispatcher, self._matching, self._limits, self._watch = dispatcher, matching, limits, watch
        self._receipts: dict[int, tuple[Work[Any], float, int, str]] = {}  # synchronous sends, by number
        self._sent = 0

    def send(self, array: np.ndarray, dest: int, tag: int, form: int = ARRAY, work: Work[Any] | None = None) -> None:
        """Send an array, or the bytes of an object as `calls/pickling.as_message` returns them. work: the handle of a
        synchronous send, which ends when the message has been taken."""
        d = self._dispatcher
        d.check_open("send")
        d.failures.raise_if_ended("send")
        is_object = form != ARRAY
        data = as_bytes(array) if form in (ARRAY, WHOLE) else _joined(array)
        code, dims = OBJECT_CODE, tuple(data.shape)
        if not is_object and array.dtype in BY_NUMPY:
            code, dims = BY_NUMPY[array.dtype].code, array.shape
        elif not is_object:
            code, dims = FOREIGN_TYPE, tuple(description(array) or ())
        with self._matching.lock, self._matching.native:
            number = 0
            if work is not None:
                self._sent = number = self._sent + 1
                name = "send_object" if is_object else "send"
                self._receipts[number] = work, time.monotonic() + d.timeout, dest, name
            first = head(tag, code, dims, number)
            pending = Pending(d.channel)
            if data.size <= INLINE_BYTES:
                pending.send(np.concatenate([first, data]), dest, MESSAGE)
            else:
                pending.send(first, dest, MESSAGE)
                pending.send(data.copy() if form in (ARRAY, WHOLE) else data, dest, PAYLOAD)
                self._matching.native.prepare_for(data.size)
            self._matching.pending_sends.add(pending.requests)
        if work is not None:
            self._watch()

    def send_synchronously(self, operation: str, array: np.ndarray, dest: int, tag: int, form: int) -> Work[Any]:
        """Send, and return the handle that ends when the receiver has taken the message."""
        work: Work[Any] = Receipt(self._dispatcher.worker, here(), dest, tag)
        self.send(array, dest, tag, form, work)
        return work

    # --- what native code has left ------------------------------------------------------------------------------------

    def finish(self, operation: str, array: np.ndarray, dest: int) -> int:
        """Take over what native code has left of a send, after it has returned UNDER_WAY. If it sends from the array
        itself, wait until all of it has left. Returns OK."""
        d, address, turn = self._dispatcher, array.ctypes.data, 0
        with self._matching.lock, self._matching.native:
            pass  # entering takes it over
        end = time.monotonic() + d.timeout
        while self._matching.pending_sends.sends_from(address):
            turn += 1
            if turn % 16 == 0:
                self._limits.check(operation, dest, end, NOT_TAKEN)
                self._limits.look_at_lives([dest])
                d.failures.raise_if_ended(operation)
            pause(turn)
        return int(c.OK)

    @property
    def sends_arrays(self) -> bool:
        """Whether MPI reads the array of a call."""
        return self._matching.native.sends_array or self._matching.pending_sends.sends_arrays

    def let_arrays_leave(self) -> None:
        """Wait until MPI reads no array of a call any more, after the group has ended. The receiver may not know that
        yet, and the program may change the array as soon as its call has raised. A receiver that takes longer than the
        limit has stopped; it finds that the group has ended before it uses what has come."""
        end = time.monotonic() + waiting.LEAVING_BYTES
        while self.sends_arrays and not self._dispatcher.channel.wire.is_stuck and time.monotonic() < end:
            with self._matching.lock, self._matching.native:
                self._matching.pending_sends.drop()
            time.sleep(waiting.NAP)

    # --- receipts; called with the lock of `matching.py`, and with native code out ------------------------------------

    @property
    def waits(self) -> bool:
        """Whether a receipt is awaited."""
        return bool(self._receipts)

    def look(self) -> None:
        """Take the receipts that have come."""
        channel = self._dispatcher.channel
        while self._receipts and (found := channel.wire.probe(channel.tag(RECEIPT))) is not None:
            number = int(self._matching.read(*found, RECEIPT).view(np.int64)[0])
            work, *_ = self._receipts.pop(number)
            work.settle(None)
            self._matching.served += 1

    def late(self, now: float) -> list[tuple[str, list[int], str]]:
        """Return the synchronous sends that are late, as `Limits.timed_out` takes them."""
        return [(name, [dest], NOT_TAKEN) for _, end, dest, name in self._receipts.values() if now > end]

    def give_up(self) -> list[Work[Any]]:
        """Return the handles of all synchronous sends that have not ended, and forget them."""
        receipts, self._receipts = self._receipts, {}
        return [work for work, *_ in receipts.values()]


class Receipt(Work[Any]):
    """The handle of a synchronous send."""

    is_receive = True  # a thread that waits for it serves the messages

    def __init__(self, worker: Worker, site: Site | None, dest: int, tag: int):
        super().__init__(worker, site)
        self.dest = dest
        self.tag = tag


def _joined(table: np.ndarray) -> np.ndarray:
    """Return the bytes of an object that a table describes: rows of begin, address and length, then the end."""
    made = np.zeros(int(table[-1, 0]), np.uint8)
    for begin, address, length in table[:-1].tolist():
        made[begin : begin + length] = at_address(address, length)
    return made
