"""send: its arguments, its call, and what it asks for: memory, or something to read meanwhile."""

import time
from typing import Any, Protocol

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.delivery import Delivery, check_other_rank
from shmcoll.diagnostics.meant_call import with_objects
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.layout import LARGEST_TAG, WORD
from shmcoll.engine.messages.foreign_arrays import description, table_of
from shmcoll.engine.messages.ring_buffers import ARRAY, FOREIGN, PART_BYTES, SEGMENTS, STORED_BYTES, SYNCHRONOUS
from shmcoll.engine.messages.send import AGAIN, BEGIN, BESIDE, BLOCKED, EMPTY_RING, FINISHED, GO_ON, NONE, STAY, STORE
from shmcoll.errors import ArenaError
from shmcoll.runtime import waiting
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.work import Work


class Companion(Protocol):
    """A receiver of messages while another message is sent."""

    def attach(self) -> np.ndarray | None:
        """Return the array to read an arrived message into; None if no message has arrived. The array of the call
        before has been read completely."""


def send(dispatcher: Dispatcher, x: Any, dest: Any, tag: Any) -> None:
    of_array(dispatcher, x, dest, tag).send()


def send_synchronously(dispatcher: Dispatcher, x: Any, dest: Any, tag: Any) -> None:
    of_array(dispatcher, x, dest, tag, SYNCHRONOUS).send_and_wait()


def of_array(dispatcher: Dispatcher, x: Any, dest: Any, tag: Any, more: int = 0) -> "Sending":
    """Return a message, checked, to be sent. more: SYNCHRONOUS or 0."""
    return Sending(dispatcher, *check_arguments(dispatcher, x, dest, tag), ARRAY | more)


def send_at_once(
    dispatcher: Dispatcher, x: Any, dest: Any, tag: Any, form: int = ARRAY, kept: Any = None
) -> Work[Any] | None:
    """Store a message that is not too long without the worker, and return its handle. Return None, and send nothing, if
    another call is in the line or memory is missing. The worker does not count if it only sleeps for posted
    receives."""
    if type(x) is not np.ndarray or not dispatcher.worker.is_open():
        return None
    length = int(x[-1, 0]) if form == SEGMENTS else x.nbytes
    if length > STORED_BYTES:
        return None
    entry, worker = dispatcher.routine("send"), dispatcher.worker
    phase = STORE if length > PART_BYTES else BEGIN
    status, work = c.BUSY, None

    def store() -> None:
        nonlocal status, work
        try:
            status = entry(x, None, phase, dest, tag, form)
            work = send_on_at_once(dispatcher, status, x, dest, tag, form, kept)
        except BaseException:
            dispatcher.left("send")
            raise

    store()
    if status == c.BUSY and not worker.turns.is_within():
        worker.turns.run_if_free(store, wakes=worker.identity)
    return work


def send_on_at_once(
    dispatcher: Dispatcher, status: int, x: np.ndarray, dest: int, tag: int, form: int = ARRAY, kept: Any = None
) -> Work[Any] | None:
    """Continue after the answer to BEGIN or STORE. Return what `send_at_once` does. On an exception the caller calls
    `left`."""
    sending = None
    if status == c.ASKS:
        sending = Sending(dispatcher, x, dest, tag, form, kept)
        status = sending.put(status, patience=0)
    if status in (c.NEEDS_PYTHON, c.BUSY) or (sending and sending.is_refused):
        return None
    return dispatcher.worker.ended(None if status == c.OK else dispatcher.failures.error("send", status))


def go_on(
    dispatcher: Dispatcher, x: Any, dest: int, tag: int, form: int = ARRAY, kept: Any = None
) -> tuple[int, "Sending | None"]:
    """Send the rest after HALFWAY. Return the last status and the `Sending`, which says whether it was refused. form,
    kept: as for `Sending`.

    On an exception the caller calls `left`. The status is BUSY if receives are posted and memory is missing: only a
    thread that has the turn waits for memory then.
    """
    sending = Sending(dispatcher, x, dest, tag, form, kept)
    if dispatcher.posted.is_empty():
        return sending.put(c.HALFWAY), sending
    status = sending.put(c.HALFWAY, patience=0)
    return (c.BUSY, None) if sending.is_refused else (status, sending)


def can_send(dispatcher: Dispatcher, x: Any, dest: Any, tag: Any) -> bool:
    """Return whether the routine certainly takes these arguments as they are."""
    if type(dest) is not int or type(tag) is not int:
        return False
    return 0 <= dest < dispatcher.size and 0 <= tag <= LARGEST_TAG and given.is_plain(x)


def check_arguments(dispatcher: Dispatcher, x: Any, dest: Any, tag: Any) -> tuple[np.ndarray, int, int]:
    if can_send(dispatcher, x, dest, tag):
        return x, dest, tag
    with dispatcher.checking("send") as check:
        return (
            as_sent(x, *check),
            given.as_peer(dest, "dest", dispatcher.size, *check),
            given.as_tag(tag, "tag", *check),
        )


def as_sent(x: Any, operation: str, rank: int) -> np.ndarray:
    """Return `x` as an array that can be sent. Raises `TypeError` if it cannot."""
    array = given.as_moved(x, operation, rank).view(np.ndarray)
    if array.dtype not in BY_NUMPY and description(array) is None:
        raise TypeError(
            f"{operation} on rank {rank}: x has a dtype with more fields than a message can describe; use "
            f"{with_objects(operation)}, "
            f"or send x.view(numpy.uint8)"
        )
    return array


class Sending:
    """A message that takes more than one call of the native entry. `form`: see `engine/messages/send.py`. kept: what
    the message refers to."""

    def __init__(self, dispatcher: Dispatcher, array: Any, dest: int, tag: int, form: int = ARRAY, kept: Any = None):
        self._dispatcher = dispatcher
        self._entry = dispatcher.routine("send")
        self._kept = array, kept
        self._operation = "send" if form & ~SYNCHRONOUS == ARRAY else "send_object"
        if form & ~SYNCHRONOUS == ARRAY and array.dtype not in BY_NUMPY:
            array, form = table_of(array), form | FOREIGN
        self._message = array, dest, tag, form
        self._refusal: ArenaError | None = None
        self._moved: tuple[int, ...] = ()  # what had moved when there was no memory
        self._since = 0.0  # when that has changed last

    def send(self) -> None:
        """Send the message."""
        self._dispatcher.complete(self._operation, self.put_beside_receives)
        self.raise_refusal()

    def send_and_wait(self) -> None:
        """Send a synchronous message, and wait until its receiver has begun."""
        _, dest, tag, _ = self._message
        check_other_rank(self._dispatcher, self._operation, dest, tag)
        self.begin().wait()

    def begin(self) -> Delivery:
        """Send a synchronous message. Return the `Delivery`, which finds out when its receiver has begun."""
        made: list[Delivery] = []

        def put() -> int:
            if not self._dispatcher.worker.turns.is_mine():  # else others may send before the place is known
                return c.BUSY
            status = self.put_beside_receives()
            if status == c.OK and not self.is_refused:
                _, dest, tag, _ = self._message
                made.append(Delivery(self._dispatcher, self._operation, dest, tag))
            return status

        self._dispatcher.complete(self._operation, put)
        self.raise_refusal()
        return made[0]

    def put_beside_receives(self) -> int:
        """Do as `put`, and serve posted receives meanwhile. Only the thread that has the turn may serve them: BUSY in
        any other."""
        dispatcher = self._dispatcher
        if dispatcher.posted.is_empty():
            return self.put()
        if not dispatcher.worker.turns.is_mine():
            return c.BUSY
        status = self.put(companion=dispatcher.posted)
        dispatcher.posted.detach()
        return status

    def put(self, status: int = c.BUSY, companion: Companion | None = None, patience: float | None = None) -> int:
        """Call the native entry, again with memory as often as it asks for some. Return its last status.

        OK means that the message has been sent, or that `raise_refusal` says why not. The message that the `companion`
        has attached may have been read in part.

        If memory is missing, the message waits for its receiver: for `patience` seconds after bytes of it, or of the
        attached message, have last moved. The default is less than the timeout of the ranks that wait for this one.

        Args:
            status: the first answer of the native entry; BUSY if it has not been called.
            companion: has messages that are received meanwhile.
            patience: seconds.
        """
        dispatcher, dest = self._dispatcher, self._message[1]
        place, memory = None, BESIDE if companion else BEGIN
        if patience is None:
            patience = min(waiting.HEAP_PATIENCE, dispatcher.timeout / 2) if dest != dispatcher.rank else 0
        try:
            if status == c.BUSY:
                status = self._call(place, memory)
            while status == c.ASKS and (asked := dispatcher.words.item(c.WANTED // WORD)) != FINISHED:
                if asked == EMPTY_RING:
                    dispatcher.buffers.sweep(dest)
                    memory = AGAIN
                elif asked == BLOCKED:
                    place = companion.attach() if companion else None  # the array before has been read completely
                    memory = GO_ON
                else:
                    try:
                        memory = dispatcher.buffers.new_ring(dest)
                    except ArenaError as error:
                        if dispatcher.buffers.stores or (self._has_waited(patience) and memory == STAY):
                            self._refuse(error, patience)
                            memory = NONE
                        else:
                            memory = STAY
                            # The attached message stays: reading all of it would delay the message that is sent. If
                            # that one cannot begin, no rank waits for it, and a received message may free memory
                            has_begun = dispatcher.buffers.has_ring(dest)
                            if companion and (place is None or not has_begun):
                                place = companion.attach()
                            if not has_begun:
                                time.sleep(waiting.NAP)
                status = self._call(place, memory)
        except BaseException:  # a signal handler: the message is not complete
            dispatcher.left("send")
            raise
        return c.OK if status == c.ASKS else status

    @property
    def is_refused(self) -> bool:
        """Whether the message has not been sent, for lack of memory."""
        return self._refusal is not None

    def raise_refusal(self) -> None:
        """Raise the `ArenaError` for which the message has not been sent, if there is one."""
        if self._refusal:
            raise self._refusal

    def _call(self, place: np.ndarray | None, memory: int) -> int:
        array, dest, tag, form = self._message
        return self._entry(array, place, memory, dest, tag, form)

    def _has_waited(self, patience: float) -> bool:
        """Return whether nothing has moved for `patience` seconds."""
        mail = self._dispatcher.buffers
        moved = *mail.progress(self._message[1]), mail.bytes_read
        if moved != self._moved:
            self._moved, self._since = moved, time.monotonic()
        return time.monotonic() >= self._since + patience

    def _refuse(self, error: ArenaError, patience: float) -> None:
        advice = "where both sides send first, sendrecv needs no memory"
        waited = f" Waited {patience:g} s for its receiver; {advice}." if patience else ""
        where = f"{self._operation} on rank {self._dispatcher.failures.name}"
        self._refusal = ArenaError(f"{where}: {error}.{waited} The message has not been sent")
