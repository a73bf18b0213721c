"""Messages between two ranks of a group on different nodes: through MPI. Those within a node are not seen here; see
`within.py`. A receive from ANY waits for both kinds; see `posted.py`.

A message is a head and its bytes. A short message is one MPI message. For a longer one the bytes follow in a second MPI
message of another kind; they come in the order of the heads. The receiver begins to receive the bytes when it reads the
head: into memory of its own, where the message stays until it is received. (Native code receives them into the array of
the receive.) So a sender never waits for its receiver. It copies what it sends, because `x` may be changed when `send`
returns.

What goes quickly is made in native code: a send, and a receive that names its source and whose message fits and comes
soon. `native/mail.py` has that half, and says how the two keep apart. Everything here runs with native code out.

A receive is always posted (`posted.py`), in the list `_posted`. Each head is compared with the list in
its order, and each new receive with the messages that have come, in their order. So two messages of one rank never
overtake each other.

Who moves messages: every thread that waits for a receive (`help`), the worker while receives are posted (`is_waiting`),
and a thread of its own while sends are on their way (`sender.py`). All of them hold `_lock`. A thread that waits for a
receive also serves the receives within the node, in turn with these, and sleeps in neither: so a message from either
side ends the wait for ANY.

A synchronous send ends when the receiver has taken its message: it sends back the number of the message (RECEIPT).

Why nobody waits forever: a receive waits for `timeout` seconds at most for a head that fits, and as long again for the
bytes, which a link may lose. A synchronous send waits as long for its receipt.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls.probe import Message, probe
from shmcoll.calls.recv import part_of
from shmcoll.collectives import RECORDS
from shmcoll.diagnostics.call_site import Site, here
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.recv import DATA
from shmcoll.engine.messages.ring_buffers import ARRAY, PART_BYTES, SOURCE_SHIFT, WHOLE
from shmcoll.errors import CollectiveTimeout, ShmcollError
from shmcoll.nodes.arrived import Arrived, Head, head
from shmcoll.nodes.native.mail_state import MailState
from shmcoll.nodes.native.mail_words import INLINE_BYTES, OBJECT_CODE
from shmcoll.nodes.progress import LIVES
from shmcoll.nodes.sender import Sender
from shmcoll.nodes.transport import at_address
from shmcoll.nodes.wire import MESSAGE, PAYLOAD, RECEIPT, Pending, as_bytes
from shmcoll.runtime.posted_receive import PostedReceive
from shmcoll.runtime.work import Work, Worker

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_WORD = 8
_SENDS, _RECEIVES = RECORDS["send"].code, RECORDS["recv"].code
_NOTHING, _NOT_ALL = "has not sent a message that fits", "has not sent all of its message"
_NOT_TAKEN = "has not taken the message"
_POLLS = 2000  # tests of a request before a thread naps between two of them
_NAP = 100e-6  # seconds
_AWAKE = 20e-3  # seconds before a thread that waits for a message naps between two looks
_MOMENT, _MOMENT_BETWEEN = 200_000, 10_000  # ns that native code waits; if messages may come within the node, too
_CHECKS = 1e-3  # seconds between two looks for receives that are late
_SOON = 2e-3  # seconds that a receive from ANY waits before it is posted
_SLICE = 500e-6  # seconds that the worker naps in its turn


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
        self._lives_at = self._checked_at = 0.0
        d, failures = dispatcher, dispatcher.failures
        self.native = MailState(
            d.channel,
            d.progress.polls,
            self._take_over,
            lambda: bool(self._posted or self._arrived),
            lambda: failures.ended is not None,
            d.agreement.state.function("wait_far"),
        )
        self._sender = Sender(d.channel.wire, self._lock, self.native, failures.name)
        dispatcher.worker.listener = self
        d.progress.mails.add(self)

    # --- sending ------------------------------------------------------------------------------------------------------

    def send(self, array: np.ndarray, dest: int, tag: int, form: int = ARRAY, work: Work[Any] | None = None) -> None:
        """Send an array, or the bytes of an object as `calls/pickling.as_message` returns them. work: the handle of a
        synchronous send, which ends when the message has been taken."""
        d = self.dispatcher
        d.check_open("send")
        d.failures.raise_if_ended("send")
        is_object = form != ARRAY
        data = as_bytes(array) if form in (ARRAY, WHOLE) else _joined(array)
        code = OBJECT_CODE if is_object else BY_NUMPY[array.dtype].code
        with self._lock, self.native:
            number = 0
            if work is not None:
                self._sent = number = self._sent + 1
                name = "send_object" if is_object else "send"
                self._receipts[number] = work, time.monotonic() + d.timeout, dest, name
            first = head(tag, code, (data.size,) if is_object else array.shape, number)
            pending = Pending(d.channel)
            if data.size <= INLINE_BYTES:
                pending.send(np.concatenate([first, data]), dest, MESSAGE)
            else:
                pending.send(first, dest, MESSAGE)
                pending.send(data.copy() if form in (ARRAY, WHOLE) else data, dest, PAYLOAD)
                self.native.prepare_for(data.size)
            self._sender.add(pending.requests)
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
        with self._lock, self.native:
            for receive in receives:
                self._posted.append(receive)
                if (one := self._first(receive.fits)) is not None:
                    self._give(one, receive)
        if not self.is_empty():
            self._watch()

    def wants(self, source: int, tag: int) -> bool:
        """Return whether a posted receive fits a message."""
        with self._lock, self.native:
            return any(receive.fits(source, tag) for receive in self._posted)

    def soon(self, tag: int, *, is_object: bool) -> int:
        """Return the rank of another node from which native code has found a message that fits, if one comes within a
        moment. Return ANY if none does, or if the receive has to be posted, because another one or a message within the
        node may come first."""
        native, within = self.native, self.dispatcher.within._dispatcher
        end = time.monotonic() + _SOON
        while native.is_open and within.posted.is_empty() and time.monotonic() < end:
            if probe(within, "recv", ANY, tag, waits=False, takes=False) is not None:
                break
            native.wait(_MOMENT_BETWEEN)
            if native.has_found:
                found = Head(native.head)
                if found.is_object == is_object and tag in (ANY, found.tag):
                    return self.dispatcher.channel.ranks.index(native.source)
                break
        return ANY

    def go_on(self, entry: Callable[..., int], out: np.ndarray | None, source: int, tag: int) -> tuple[int, Any]:
        """Receive the message that native code has found, into a new array or the beginning of `out`. Return the status
        of the native entry, and where the message is."""
        number, found = self.native.found_number, Head(self.native.head)
        place = np.empty(found.shape, found.dtype) if out is None else part_of(out, found.count)
        status = entry(None, place, DATA, source, tag, number)
        return (self.await_bytes(place, source) if status == c.UNDER_WAY else status), place

    def await_bytes(self, place: np.ndarray, source: int) -> int:
        """Wait for the bytes that follow a head, after native code has returned UNDER_WAY. Return the status of a
        message that has been received."""
        d, payload = self.dispatcher, self.native.take_payload()
        assert payload is not None
        request, tag = payload
        try:
            self._await([request], source, place)
        except BaseException:
            d.left("recv")
            raise
        return -1 - (source << SOURCE_SHIFT | tag)

    def failed(self, operation: str, rank: int) -> None:
        """Raise after native code has returned UNREADABLE."""
        d = self.dispatcher
        d.progress.lost(d.failures, [rank], d.channel.wire.mpi.Get_error_string(self.native.error))
        d.failures.raise_if_ended(operation)

    def adopt(self) -> None:
        """Take over what native code has left of a send."""
        with self._lock, self.native:
            pass

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
        while one.requests:
            self._look()
            self._check(operation, one.source, end, _NOT_ALL)
            d.failures.raise_if_ended(operation)
            time.sleep(0)
        return Message(one.envelope, one.memory if one.is_object else one.array(), d.failures.name)

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
        begun, is_noted = time.monotonic(), False
        try:
            while True:
                self._look()
                self._look_within(works)
                if not polls or any(work._latch.is_set for work in works):
                    return
                self._fail_late()
                is_late = time.monotonic() - begun > _AWAKE
                if is_late and not sleeps:
                    return
                if is_late and not is_noted:
                    is_noted = True
                    self._note_wait(works)
                self._wait_for_any(not within.posted.is_empty(), is_late)
        finally:
            if is_noted:
                self.dispatcher.recorder.stop_waiting()

    def withdraw(self, *, all_of_them: bool) -> list[Site | None]:
        """Withdraw the receives, at the end; see `Listener`."""
        with self._lock, self.native:
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
        begun, is_noted = time.monotonic(), False
        try:
            while True:
                d.failures.raise_if_ended(operation)
                self._look()
                with self._lock, self.native:
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
                self._check(operation, source, begun + d.timeout, _NOTHING)
                is_late = time.monotonic() - begun > _AWAKE
                if is_late and not is_noted:
                    is_noted = True
                    d.recorder.wait_for_message(_RECEIVES, self._number(source), tag)
                self._wait_for_any(look_within is not None, is_late)
        finally:
            if is_noted:
                d.recorder.stop_waiting()

    def _wait_for_any(self, looks_within: bool, is_late: bool) -> None:
        """Wait a moment for a message, in a thread that then looks again, also at messages within the node."""
        self.dispatcher.progress.drain()
        if is_late:
            time.sleep(_NAP)
        else:
            self.native.wait(_MOMENT_BETWEEN if looks_within else _MOMENT)

    def drain(self) -> None:
        """Take in the messages that have come, though nobody waits for them, unless a thread does so now."""
        if self.dispatcher.failures.is_shut or not self._lock.acquire(blocking=False):
            return
        try:
            with self.native:
                self._read_heads()
        finally:
            self._lock.release()

    def _look(self) -> None:
        """Take what has come, and forget receives that have been withdrawn."""
        d = self.dispatcher
        with self._lock, self.native:
            self._posted = [receive for receive in self._posted if not receive.is_withdrawn]
            self._read_heads()
            while self._receipts and (found := d.channel.wire.probe(d.channel.tag(RECEIPT))) is not None:
                number = int(self._read(*found, RECEIPT).view(np.int64)[0])
                work, *_ = self._receipts.pop(number)
                work.settle(None)
                self.served += 1
            for one in list(self._coming):
                if d.channel.wire.tests(one.requests):
                    one.requests = []
                    self._coming.remove(one)
                    if one.receive is not None:
                        self._complete(one, one.receive)

    def _read_heads(self) -> None:
        wire, tag = self.dispatcher.channel.wire, self.dispatcher.channel.tag(MESSAGE)
        while (found := wire.probe(tag)) is not None:
            self._read_head(found[0], self._read(*found, MESSAGE))

    def _take_over(self) -> None:
        """Take over what native code has left."""
        left = self.native.take_sends()
        if left is not None:
            self._sender.add(*left)
        if (found := self.native.take_found()) is not None:
            self._read_head(self.native.source, found)
        if (matched := self.native.take_matched()) is not None:
            request, memory = matched
            status = self.dispatcher.channel.wire.mpi.Status()
            self._await([request], ANY, memory, status)
            self._read_head(status.Get_source(), memory)

    def _read(self, world: int, length: int, kind: int) -> np.ndarray:
        """Receive a message that MPI has found, from a rank of the job."""
        d, data = self.dispatcher, np.empty(length, np.uint8)
        requests = d.channel.wire.irecv(data, world, d.channel.tag(kind))
        self._await(requests, d.channel.ranks.index(world), data)
        return data

    def _await(self, requests: list[Any], source: int, memory: np.ndarray, *status: Any) -> None:
        """Wait for a message that MPI has found, which takes as long as the sender needs to move it. status: of MPI, to
        be filled."""
        d, end, turn = self.dispatcher, time.monotonic() + self.dispatcher.timeout, 0
        try:
            while not d.channel.wire.tests(requests, list(status) or None):
                turn += 1
                if turn % 16 == 0:
                    self._check("recv", source, end, _NOT_ALL)
                    self._look_at_lives([source])
                    d.failures.raise_if_ended("recv")
                _pause(turn)
        except BaseException:
            d.progress.abandon([(request, True) for request in requests], memory)
            raise

    def _read_head(self, world: int, data: np.ndarray) -> None:
        """Take in the message of a rank of the job that begins with a head."""
        one = Arrived(self.dispatcher.channel.ranks.index(world), data)
        if not one.is_whole:
            pending = Pending(self.dispatcher.channel)
            pending.recv(one.memory, one.source, PAYLOAD)
            one.requests = pending.requests
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
        if not one.requests:
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
        self._sender.add(pending.requests)

    def _misfit(self, one: Arrived, receive: PostedReceive) -> Exception | None:
        name, place = self.dispatcher.failures.name, receive.place
        where = f"{receive.operation} on rank {name}: the message of rank {one.source} with tag {one.tag}"
        if receive.operation == "recv_object":
            return None if one.is_object else TypeError(f"{where} is an array of {one.dtype}; use recv")
        if one.is_object:
            return TypeError(f"{where} is an object; use recv_object")
        if place is None:
            return None
        if BY_NUMPY[place.dtype].code != one.code:
            return TypeError(f"{where} has dtype {one.dtype}, out has {place.dtype}")
        if one.count > place.size:
            return ValueError(f"{where} has {one.count} elements, out has room for {place.size}")
        return None

    def _complete(self, one: Arrived, receive: PostedReceive) -> None:
        """Make the result of a receive whose message has come."""
        if one.is_object:
            array = one.memory if one.memory.ctypes.data % _WORD == 0 else one.memory.copy()
        elif receive.place is None:
            array = one.array()
        else:
            array = part_of(receive.place, one.count)
            as_bytes(array)[:] = one.memory
        outcome: Any
        try:
            outcome = receive.finish(array, -1 - (one.source << SOURCE_SHIFT | one.tag))
        except BaseException as error:
            outcome = error
        receive.settle(outcome)

    # --- failures -----------------------------------------------------------------------------------------------------

    def _fail_late(self) -> None:
        """Make receives and synchronous sends fail that are late or cannot complete, now and then."""
        d, now = self.dispatcher, time.monotonic()
        if now < self._checked_at + _CHECKS:
            return
        self._checked_at = now
        d.progress.look()
        with self._lock, self.native:
            self._look_at_lives([receive.source for receive in self._posted if receive.source != ANY])
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

    def _look_at_lives(self, awaited: list[int]) -> None:
        """Look, now and then, whether ranks of this node live, and whether the awaited ones have left."""
        d, now = self.dispatcher, time.monotonic()
        if now >= self._lives_at:
            self._lives_at = now + LIVES
            d.progress.look_at_lives(d.failures, awaited, now)

    def _give_up(self, error: ShmcollError) -> None:
        """Make all receives and synchronous sends fail."""
        with self._lock, self.native:
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
        self.native.shut()
        if (payload := self.native.take_payload()) is not None:
            self.dispatcher.progress.abandon([(payload[0], True)])


class _Receipt(Work[Any]):
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


def _pause(turn: int) -> None:
    if turn > _POLLS:
        time.sleep(_NAP)
    else:
        os.sched_yield()
