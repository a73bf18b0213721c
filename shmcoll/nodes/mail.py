"""Messages between two ranks of a group on different nodes: through MPI. Those within a node are not seen here; see
`within.py`. A receive from ANY waits for both kinds; see `posted.py`.

A message is a head and its bytes. The head has tag, form, dtype, shape, number. A short message is one MPI message.
For a longer one the bytes follow in a second MPI message of another kind; they come in the order of the heads. The
receiver begins to receive the bytes when it reads the head: into the array of the receive that the message fits, or
else into memory of its own, where the message stays until it is received. So a sender never waits for its receiver. It
copies what it sends, because `x` may be changed when `send` returns.

A receive is always posted (`posted.py`), in the list `_posted`. Each head is compared with the list in
its order, and each new receive with the messages that have come, in their order. So two messages of one rank never
overtake each other.

Who moves messages: every thread that waits for a receive (`help`), the worker while receives are posted (`is_waiting`),
and a thread of its own while sends are on their way (`_Sender`), because MPI moves a long message only while the
sender is inside MPI. All of them hold `_lock`. A thread that waits for a receive also serves the receives within the
node, in turn with these, and sleeps in neither: so a message from either side ends the wait for ANY.

A synchronous send ends when the receiver has taken its message: it sends back the number of the message (RECEIPT).

Why nobody waits forever: a receive waits for `timeout` seconds at most for a head that fits, and as long again for the
bytes, which a link may lose. A synchronous send waits as long for its receipt.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls.probe import Envelope, Message
from shmcoll.calls.recv import part_of
from shmcoll.collectives import RECORDS
from shmcoll.diagnostics.call_site import Site, here
from shmcoll.engine.kernels.dtypes import BY_CODE, BY_NUMPY
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.ring_buffers import ARRAY, PART_BYTES, SOURCE_SHIFT, WHOLE
from shmcoll.errors import CollectiveTimeout, ShmcollError
from shmcoll.nodes.transport import at_address
from shmcoll.nodes.wire import MESSAGE, PAYLOAD, RECEIPT, Pending, as_bytes
from shmcoll.runtime.posted_receive import PostedReceive
from shmcoll.runtime.work import Work, Worker

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

INLINE_BYTES = 16 << 10  # of a message that is sent with its head
_TAG, _CODE, _BYTES, _NUMBER, _WANTS_RECEIPT, _DIMS = range(6)  # words of a head; the shape follows
_WORD = 8
_SENDS, _RECEIVES = RECORDS["send"].code, RECORDS["recv"].code
_OBJECT = 0  # in place of the code of a dtype
_NOTHING, _NOT_ALL = "has not sent a message that fits", "has not sent all of its message"
_NOT_TAKEN = "has not taken the message"
_POLLS = 2000  # looks of a thread that waits before it sleeps between two of them
_NAP = 100e-6  # seconds
_TESTS = 100  # of a send before a thread is started for it, which takes longer
_SLICE = 500e-6  # seconds that the worker naps in its turn


class Arrived:
    """A message whose head has come."""

    def __init__(self, source: int, head: np.ndarray):
        self.source, self.tag, self.code = source, int(head[_TAG]), int(head[_CODE])
        self.bytes, self.number = int(head[_BYTES]), int(head[_NUMBER])
        self.wants_receipt = bool(head[_WANTS_RECEIPT])
        self.shape = tuple(head[_DIMS + 1 : _DIMS + 1 + int(head[_DIMS])].tolist())
        self.memory = np.empty(0, np.uint8)
        self.pending: Pending | None = None  # the rest of its bytes
        self.deadline = 0.0  # until when a receive waits for them
        self.receive: PostedReceive | None = None  # that gets it

    @property
    def envelope(self) -> Envelope:
        return Envelope(self.source, self.tag, None if self.code == _OBJECT else self.dtype, self.shape)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.uint8) if self.code == _OBJECT else BY_CODE[self.code].numpy

    def array(self) -> np.ndarray:
        """Return what has come, once all of it has."""
        made = np.empty(self.shape, self.dtype)
        as_bytes(made)[:] = self.memory
        return made


class Mail:
    """The messages of one group, and the listener of its worker (`runtime/async_worker.py`)."""

    def __init__(self, dispatcher: "NodesDispatcher"):
        self.dispatcher = dispatcher
        self.served = 0
        self._lock = threading.RLock()
        self._posted: list[PostedReceive] = []
        self._arrived: list[Arrived] = []  # that no receive has got, in the order of their heads
        self._coming: list[Arrived] = []  # whose bytes are on their way
        self._receipts: dict[int, tuple[Work[Any], float, int, str]] = {}  # synchronous sends, by number
        self._sent = 0
        self._taken: dict[int, int] = {}  # by source, when a message of it was taken last
        self._lives_at = 0.0
        self._sender = _Sender(self)
        dispatcher.worker.listener = self

    # --- sending ------------------------------------------------------------------------------------------------------

    def send(self, array: np.ndarray, dest: int, tag: int, form: int = ARRAY, work: Work[Any] | None = None) -> None:
        """Send an array, or the bytes of an object as `calls/pickling.as_message` returns them. work: the handle of a
        synchronous send, which ends when the message has been taken."""
        d = self.dispatcher
        d.check_open("send")
        d.failures.raise_if_ended("send")
        is_object = form != ARRAY
        data = _joined(array) if form not in (ARRAY, WHOLE) else as_bytes(array)
        with self._lock:
            self._sent += 1
            number = self._sent
            if work is not None:
                name = "send_object" if is_object else "send"
                self._receipts[number] = work, time.monotonic() + d.timeout, dest, name
            shape = (data.size,) if is_object else array.shape
            code = _OBJECT if is_object else BY_NUMPY[array.dtype].code
            head = np.array([tag, code, data.size, number, work is not None, len(shape), *shape], np.int64)
            pending = Pending(d.channel)
            if data.size <= INLINE_BYTES:
                pending.send(np.concatenate([head.view(np.uint8), data]), dest, MESSAGE)
            else:
                pending.send(head.view(np.uint8), dest, MESSAGE)
                pending.send(data.copy(), dest, PAYLOAD)
            self._sender.add(pending)
        if work is not None:
            self._watch()

    def send_synchronously(self, operation: str, array: np.ndarray, dest: int, tag: int, form: int) -> Work[Any]:
        """Send, and return the handle that ends when the receiver has taken the message."""
        work: Work[Any] = _Receipt(self.dispatcher.worker, here(), dest, tag)
        self.send(array, dest, tag, form, work)
        return work

    # --- receiving ----------------------------------------------------------------------------------------------------

    def enter(self, receives: Sequence[PostedReceive]) -> None:
        """Post receives."""
        with self._lock:
            for receive in receives:
                self._posted.append(receive)
                if (one := self._first(receive.fits)) is not None:
                    self._give(one, receive)
        if not self.is_empty():
            self._watch()

    def wants(self, source: int, tag: int) -> bool:
        """Return whether a posted receive fits a message."""
        with self._lock:
            return any(receive.fits(source, tag) for receive in self._posted)

    def probe(
        self,
        operation: str,
        source: int,
        tag: int,
        *,
        waits: bool,
        takes: bool,
        look_within: Callable[[], Any] | None = None,
    ) -> Any:
        """Return the `Envelope` of the first message that fits, or the `Message` itself; None if it has not come and
        the call does not wait. look_within: returns that of a message within the node, or None, without a wait."""
        d = self.dispatcher
        d.check_open(operation)
        one = self._find(operation, source, tag, waits=waits, takes=takes, look_within=look_within)
        if not isinstance(one, Arrived):
            return one
        if not takes:
            return one.envelope
        end = time.monotonic() + d.timeout
        while one.pending is not None:
            self._look()
            self._check(operation, one.source, end, _NOT_ALL)
            d.failures.raise_if_ended(operation)
            time.sleep(0)
        return Message(one.envelope, one.memory if one.code == _OBJECT else one.array(), d.failures.name)

    # --- the listener -------------------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        """Return whether nothing is awaited."""
        return not (self._posted or self._receipts or any(one.receive for one in self._coming))

    def is_waiting(self, *, is_ending: bool) -> bool:
        """Serve what has come; see `Listener`."""
        self._look()
        if not is_ending:
            self._fail_late()
        time.sleep(_SLICE)
        return not is_ending or bool(self._receipts)

    def help(self, works: Sequence[Work[Any]], *, polls: bool, sleeps: bool) -> None:
        """Serve what has come in a thread that waits for one of these; see `Listener`."""
        within = self.dispatcher.within._dispatcher
        if polls and not within.posted.is_empty():
            within.worker.check_outside()
        turn = 0
        try:
            while not any(work._latch.is_set for work in works):
                self._look()
                self._look_within(works)
                if not polls or (turn > _POLLS and not sleeps):
                    return
                turn += 1
                if turn % 16 == 0:
                    self._fail_late()
                if turn == _POLLS:
                    self._note_wait(works)
                _pause(turn)
        finally:
            if turn >= _POLLS:
                self.dispatcher.recorder.stop_waiting()

    def withdraw(self, *, all_of_them: bool) -> list[Site | None]:
        """Withdraw the receives, at the end; see `Listener`."""
        with self._lock:
            found = [receive for receive in self._posted if all_of_them and receive.withdraw()]
            self._posted = [receive for receive in self._posted if receive not in found]
        return [receive.site for receive in found]

    # --- how ----------------------------------------------------------------------------------------------------------

    def _note_wait(self, works: Sequence[Work[Any]]) -> None:
        """Record the message that a thread waits for: the first of several."""
        for work in works:
            if isinstance(work, PostedReceive):
                self.dispatcher.recorder.wait_for_message(_RECEIVES, self._number(work.source), work.wanted[1])
                return
            if isinstance(work, _Receipt):
                self.dispatcher.recorder.wait_for_message(_SENDS, self._number(work.dest), work.tag)
                return

    def _number(self, rank: int) -> int:
        """Return the number in the job of a rank of the group; ANY for ANY."""
        return rank if rank == ANY else self.dispatcher.channel.ranks[rank]

    def _watch(self) -> None:
        """Have the worker serve what is awaited."""
        worker = self.dispatcher.worker
        with worker.turns.guard:
            worker.start("recv")
        worker.watch()

    def _look_within(self, works: Sequence[Work[Any]]) -> None:
        """Serve the receives within the node. A long message is left to the worker there, which is told so."""
        within = self.dispatcher.within._dispatcher
        first = within.posted.first()
        if first is None:
            return
        within.posted.help(works, polls=False, sleeps=False)
        if within.buffers.found_bytes > PART_BYTES:
            within.worker.hurry(first)

    def _find(
        self,
        operation: str,
        source: int,
        tag: int,
        *,
        waits: bool,
        takes: bool,
        look_within: Callable[[], Any] | None,
    ) -> Any:
        """Return the first message that fits, and take it if asked to; None if it has not come and the call does not
        wait."""
        d = self.dispatcher
        end, turn = time.monotonic() + d.timeout, 0
        try:
            while True:
                d.failures.raise_if_ended(operation)
                self._look()
                with self._lock:
                    one = self._first(lambda sender, its_tag: source in (ANY, sender) and tag in (ANY, its_tag))
                    if one is not None and takes:
                        self._arrived.remove(one)
                        self._take(one)
                if one is not None:
                    return one
                if look_within is not None and (found := look_within()) is not None:
                    return found
                if not waits:
                    return None
                turn += 1
                self._check(operation, source, end, _NOTHING)
                if turn == _POLLS:
                    d.recorder.wait_for_message(_RECEIVES, self._number(source), tag)
                _pause(turn)
        finally:
            if turn >= _POLLS:
                d.recorder.stop_waiting()

    def _look(self) -> None:
        """Take what has come, and forget receives that have been withdrawn."""
        d = self.dispatcher
        with self._lock:
            self._posted = [receive for receive in self._posted if not receive.is_withdrawn]
            while (found := d.channel.wire.probe(d.channel.tag(MESSAGE))) is not None:
                self._read_head(*found)
            while self._receipts and (found := d.channel.wire.probe(d.channel.tag(RECEIPT))) is not None:
                number = int(self._read(*found, RECEIPT).view(np.int64)[0])
                work, *_ = self._receipts.pop(number)
                work.settle(None)
                self.served += 1
            for one in list(self._coming):
                if one.pending is None or d.channel.wire.tests(one.pending.requests):
                    one.pending = None
                    self._coming.remove(one)
                    if one.receive is not None:
                        self._complete(one, one.receive)

    def _read(self, source: int, length: int, kind: int) -> np.ndarray:
        d = self.dispatcher
        data = np.empty(length, np.uint8)
        d.channel.wire.comm.Recv([data, d.channel.wire.mpi.BYTE], source, d.channel.tag(kind))  # it has come
        return data

    def _read_head(self, world: int, length: int) -> None:
        d = self.dispatcher
        data = self._read(world, length, MESSAGE)
        dims = int(data[_DIMS * _WORD :][:_WORD].view(np.int64)[0])
        end = (_DIMS + 1 + dims) * _WORD
        one = Arrived(d.channel.ranks.index(world), data[:end].view(np.int64))
        if one.bytes <= INLINE_BYTES:
            one.memory = data[end:]
        else:
            one.memory = np.empty(one.bytes, np.uint8)
            one.pending = Pending(d.channel)
            one.pending.recv(one.memory, one.source, PAYLOAD)
            self._coming.append(one)
        self._come(one)

    def _come(self, one: Arrived) -> None:
        """Give a new message to the first receive that it fits."""
        self._arrived.append(one)
        for receive in list(self._posted):
            if receive.fits(one.source, one.tag):
                self._give(one, receive)
                if one not in self._arrived:
                    return

    def _give(self, one: Arrived, receive: PostedReceive) -> None:
        """Have a receive take a message that its source and tag fit. If its array does not, the receive fails, and the
        message stays."""
        wrong = self._misfit(one, receive)
        if not receive.take():
            return  # withdrawn
        self._posted.remove(receive)
        self.served += 1
        if wrong is not None:
            receive.settle(wrong)
            return
        self._arrived.remove(one)
        self._take(one)
        if one.pending is None:
            self._complete(one, receive)
        else:
            one.receive, one.deadline = receive, time.monotonic() + self.dispatcher.timeout

    def _first(self, fits: Callable[[int, int], bool]) -> Arrived | None:
        """Return the message that a new receive gets: the first one that fits of the source served longest ago."""
        found: dict[int, Arrived] = {}
        for one in self._arrived:
            if one.source not in found and fits(one.source, one.tag):
                found[one.source] = one
        return min(found.values(), key=lambda one: self._taken.get(one.source, 0), default=None)

    def _take(self, one: Arrived) -> None:
        """Tell the sender that its message has been taken, if it waits for that."""
        self.served += 1
        self._taken[one.source] = self.served
        if not one.wants_receipt:
            return
        d = self.dispatcher
        pending = Pending(d.channel)
        pending.send(np.array([one.number], np.int64).view(np.uint8), one.source, RECEIPT)
        self._sender.add(pending)

    def _misfit(self, one: Arrived, receive: PostedReceive) -> Exception | None:
        name, place = self.dispatcher.failures.name, receive.place
        where = f"{receive.operation} on rank {name}: the message of rank {one.source} with tag {one.tag}"
        if receive.operation == "recv_object":
            return None if one.code == _OBJECT else TypeError(f"{where} is an array of {one.dtype}; use recv")
        if one.code == _OBJECT:
            return TypeError(f"{where} is an object; use recv_object")
        if place is None:
            return None
        if BY_NUMPY[place.dtype].code != one.code:
            return TypeError(f"{where} has dtype {one.dtype}, out has {place.dtype}")
        count = one.bytes // one.dtype.itemsize
        if count > place.size:
            return ValueError(f"{where} has {count} elements, out has room for {place.size}")
        return None

    def _complete(self, one: Arrived, receive: PostedReceive) -> None:
        """Make the result of a receive whose message has come."""
        if one.code == _OBJECT:
            array = one.memory if one.memory.ctypes.data % _WORD == 0 else one.memory.copy()
        elif receive.place is None:
            array = one.array()
        else:
            array = part_of(receive.place, one.bytes // one.dtype.itemsize)
            as_bytes(array)[:] = one.memory
        outcome: Any
        try:
            outcome = receive.finish(array, -1 - (one.source << SOURCE_SHIFT | one.tag))
        except BaseException as error:
            outcome = error
        receive.settle(outcome)

    # --- failures -----------------------------------------------------------------------------------------------------

    def _fail_late(self) -> None:
        """Make receives and synchronous sends fail that are late or cannot complete."""
        d, now = self.dispatcher, time.monotonic()
        d.progress.look()
        with self._lock:
            if now >= self._lives_at:
                self._lives_at = now + 0.02
                d.progress.look_at_lives(d.failures, [r.source for r in self._posted if r.source != ANY], now)
            late = [(one.operation, [one.source], _NOTHING) for one in self._posted if now > one.deadline]
            late += [(name, [dest], _NOT_TAKEN) for _, end, dest, name in self._receipts.values() if now > end]
            coming = [(one.receive.operation, one) for one in self._coming if one.receive is not None]
            late += [(name, [one.source], _NOT_ALL) for name, one in coming if now > one.deadline]
        if late and d.failures.ended is None:
            self._timed_out(*late[0])
        if d.failures.ended is None and not d.group.has_ended():
            return
        try:
            d.failures.raise_if_ended("recv")
        except ShmcollError as error:
            self._give_up(error)

    def _give_up(self, error: ShmcollError) -> None:
        """Make all receives and synchronous sends fail."""
        with self._lock:
            works: list[Work[Any]] = [receive for receive in self._posted if receive.take()]
            works += [one.receive for one in self._coming if one.receive is not None]
            works += [work for work, *_ in self._receipts.values()]
            self._posted.clear()
            self._receipts.clear()
            for one in self._coming:
                one.receive = None
        for work in works:
            work.settle(error)

    def _check(self, operation: str, source: int, end: float, what: str) -> None:
        d = self.dispatcher
        d.progress.look()
        if time.monotonic() > end:
            self._timed_out(operation, [source], what)

    def _timed_out(self, operation: str, sources: list[int], what: str) -> None:
        d = self.dispatcher
        others = [rank for rank in range(d.size) if rank != d.rank]
        missing = others if sources == [ANY] else sources
        who = "every other rank" if sources == [ANY] else d.topology.describe(sources[0])
        where = f"{operation} on {d.topology.describe(d.rank)}"
        text = f"{where}: timed out after {d.timeout:g} s; {who} {what}. Raise comm.timeout if it is only slow"
        d.failures.end(CollectiveTimeout, text, missing=missing)

    def close(self) -> None:
        """Wait until what has been sent has left, as far as MPI moves it, and stop. In a group that has ended nobody
        waits for a message any more."""
        if self.dispatcher.failures.ended is None:
            self._sender.finish()


class _Receipt(Work[Any]):
    """The handle of a synchronous send."""

    is_receive = True  # a thread that waits for it serves the messages

    def __init__(self, worker: Worker, site: Site | None, dest: int, tag: int):
        super().__init__(worker, site)
        self.dest = dest
        self.tag = tag


class _Sender:
    """Keeps MPI moving while sends are on their way: in a thread that runs as long as there are any."""

    def __init__(self, mail: Mail):
        self._mail = mail
        self._pending: list[Pending] = []
        self._is_running = False
        self._pid = os.getpid()

    def add(self, pending: Pending) -> None:
        """Keep a send, with its memory, until it has left. Called with the lock of the mail."""
        self._drop()
        tests = self._mail.dispatcher.channel.wire.tests
        for _ in range(_TESTS):
            if tests(pending.requests):
                return
        self._pending.append(pending)
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=self._run, name="shmcoll-sends", daemon=True).start()

    def finish(self, seconds: float = 10.0) -> None:
        """Wait until all sends have left, up to a limit."""
        end = time.monotonic() + seconds
        while self._pending and os.getpid() == self._pid:
            with self._mail._lock:
                self._drop()
            if time.monotonic() > end:
                name = self._mail.dispatcher.failures.name
                print(
                    f"shmcoll: rank {name} ends, and {len(self._pending)} of its messages have not been received",
                    file=sys.stderr,
                )
                return
            time.sleep(_NAP)

    def _run(self) -> None:
        while True:
            with self._mail._lock:
                self._drop()
                if not self._pending:
                    self._is_running = False
                    return
            time.sleep(_SLICE)

    def _drop(self) -> None:
        wire = self._mail.dispatcher.channel.wire
        if self._pending and not wire.mpi.Is_finalized():
            self._pending = [one for one in self._pending if not wire.tests(one.requests)]


def _joined(table: np.ndarray) -> np.ndarray:
    """Return the bytes of an object that a table describes: rows of begin, address and length, then the end."""
    made = np.zeros(int(table[-1, 0]), np.uint8)
    for begin, address, length in table[:-1].tolist():
        made[begin : begin + length] = at_address(address, length)
    return made


def _pause(turn: int) -> None:
    if turn > _POLLS:
        time.sleep(_NAP)
    else:
        os.sched_yield()
