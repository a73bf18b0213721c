"""Messages between two ranks of a group on different nodes: through MPI. Those within a node are not seen here; see
`within.py`. A receive from ANY waits for both kinds; see `posted_receives.py`.

A message is a head and its bytes. A short message is one MPI message. For a longer one the bytes follow in a second MPI
message of another kind; they come in the order of the heads. `far_sends.py` sends, and `matching.py` gives messages to
receives. This file moves them, and limits how long a receive waits.

Native code makes what goes quickly: a send, and a receive whose message fits and comes soon
(`native/message_sends.py`, `native/message_receives.py`). `native/message_words.py` describes how the two halves keep
apart. A receive that gets nothing that way is posted (`posted_receives.py`).

Messages move in every thread that waits for a receive (`help`), in the worker while receives are posted (`is_waiting`),
and in a thread of its own while sends are pending (`pending_sends.py`). Each has the lock of `matching.py` for that,
and keeps native code out. A thread that waits for a receive also serves the receives within the node, in turn with
these, and sleeps in neither: so a message from either side ends the wait for ANY.

Why nobody waits forever: a receive waits for `timeout` seconds at most for a head that fits, and as long again for the
bytes, which a link may lose. For sends see `far_sends.py`.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls.probe import Message, probe
from shmcoll.calls.recv import part_of
from shmcoll.collectives import RECORDS
from shmcoll.diagnostics.call_site import Site
from shmcoll.engine import context as c
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.recv import DATA
from shmcoll.engine.messages.ring_buffers import PART_BYTES, SOURCE_SHIFT
from shmcoll.errors import ShmcollError
from shmcoll.nodes.mpi import waiting
from shmcoll.nodes.point_to_point.far_sends import FarSends, Receipt
from shmcoll.nodes.point_to_point.matching import Matching
from shmcoll.nodes.point_to_point.message_limits import NOT_ALL, NOTHING, Limits
from shmcoll.nodes.point_to_point.unexpected import Head, UnexpectedMessage
from shmcoll.runtime.posted_receive import PostedReceive
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_SENDS, _RECEIVES = RECORDS["send"].code, RECORDS["recv"].code


class FarMessages:
    """The messages of one group, and the listener of its worker (`runtime/async_worker.py`)."""

    def __init__(self, dispatcher: "NodesDispatcher"):
        self.dispatcher = dispatcher
        self._limits = Limits(dispatcher)
        self._matching = Matching(dispatcher, self._limits)
        self.native = self._matching.native
        self.sends = FarSends(dispatcher, self._matching, self._limits, self._watch)
        self._checked_at = 0.0
        dispatcher.worker.listener = self
        dispatcher.progress.far_messages.add(self)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def enter(self, receives: Sequence[PostedReceive]) -> None:
        """Post receives."""
        with self._matching.lock, self.native:
            for receive in receives:
                self._matching.posted.append(receive)
                if (one := self._matching.first(receive.fits)) is not None:
                    self._matching.give(one, receive)
        if not (self.is_empty() or (receives[0].is_awaited and self.dispatcher.worker.ends_with_program)):
            self._watch()

    def wants(self, source: int, tag: int) -> bool:
        """Return whether a posted receive fits a message."""
        with self._matching.lock, self.native:
            return any(receive.fits(source, tag) for receive in self._matching.posted)

    def soon(self, tag: int, *, is_object: bool) -> int:
        """Return the rank of another node from which native code has found a message that fits, if one comes within a
        moment. Return ANY if none does, or if the receive has to be posted, because another one or a message within the
        node may come first."""
        native, within = self.native, self.dispatcher.within._dispatcher
        moment = waiting.MOMENT_NS if len(self.dispatcher.topology.local) == 1 else waiting.MOMENT_BETWEEN_NS
        end = time.monotonic() + (waiting.SOON if native.can_wait else 0.0)
        while native.is_open and within.posted.is_empty() and time.monotonic() < end:
            if probe(within, "recv", ANY, tag, waits=False, takes=False) is not None:
                break
            native.wait(moment)
            if native.has_found:
                found = Head(native.head)
                if found.is_object == is_object and tag in (ANY, found.tag):
                    return self.dispatcher.channel.ranks.index(native.source)
                break
        return ANY

    def go_on(
        self, entry: Callable[..., int], out: np.ndarray | None, source: int, tag: int, *, is_object: bool = False
    ) -> tuple[int, Any]:
        """Receive the message that native code has found, into a new array or the beginning of `out`. Return the status
        of the native entry, and where the message is. Other threads may have changed what is found; the entry sees that
        by the number."""
        number, found = self.native.found_number, Head(self.native.head)
        if found.is_object != is_object:
            return c.NEEDS_PYTHON, out
        place = np.empty(found.shape, found.dtype) if out is None else part_of(out, found.count)
        status = entry(None, place, DATA, source, tag, number)
        return (self.await_bytes(place, source) if status == c.UNDER_WAY else status), place

    def await_bytes(self, place: np.ndarray, source: int) -> int:
        """Wait for the bytes that follow a head, after native code has returned UNDER_WAY. Return the status of a
        message that has been received."""
        payload = self.native.take_payload()
        assert payload is not None
        request, tag = payload
        self._matching.wait_for([request], source, place)
        self.dispatcher.progress.look()
        self.dispatcher.failures.raise_if_ended("recv")  # its sender may have been interrupted meanwhile
        return -1 - (source << SOURCE_SHIFT | tag)

    def failed(self, operation: str, rank: int) -> None:
        """Raise after native code has returned UNREADABLE."""
        self._limits.failed(operation, rank, self.native.error)

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
        if not isinstance(one, UnexpectedMessage):
            return one
        if not takes:
            return one.envelope
        end = time.monotonic() + d.timeout
        while one.requests:
            self._look()
            self._limits.check(operation, one.source, end, NOT_ALL)
            d.failures.raise_if_ended(operation)
            time.sleep(0)
        return Message(one.envelope, one.memory if one.is_object else one.array(), d.failures.name)

    # --- the listener -------------------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        """Return whether nothing is awaited."""
        return not (self._matching.posted or self.sends.waits or any(one.receive for one in self._matching.coming))

    def only_threads_wait(self) -> bool:
        """See `Listener`."""
        with self._matching.lock, self.native:
            receives = [*self._matching.posted, *(one.receive for one in self._matching.coming if one.receive)]
            return not self.sends.waits and all(receive.is_awaited for receive in receives)

    def is_waiting(self, *, is_ending: bool) -> bool:
        """Serve what has come; see `Listener`."""
        self._look()
        if not is_ending or any(one.is_awaited for one in list(self._matching.posted)):
            self._fail_late()
        if self._matching.is_moving:
            self.native.wait(waiting.MOMENT_NS)
        else:
            time.sleep(waiting.SLICE)
        return not is_ending or self.sends.waits

    def help(self, works: Sequence[Work[Any]], *, polls: bool, sleeps: bool) -> None:
        """Serve what has come in a thread that waits for one of these; see `Listener`."""
        within = self.dispatcher.within._dispatcher
        if polls and not within.posted.is_empty():
            within.worker.check_outside()
        begun, is_noted = time.monotonic(), False
        stays = works[0] if polls and sleeps and len(works) == 1 else None
        try:
            while True:
                self._look(stays)
                self._look_within(works)
                if not polls or any(work._latch.is_set for work in works):
                    return
                self._fail_late()
                is_late = time.monotonic() - begun > waiting.MESSAGE_AWAKE
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
        with self._matching.lock, self.native:
            others = [receive for receive in self._matching.posted if not receive.is_awaited]
            found = [receive for receive in others if all_of_them and receive.withdraw()]
            self._matching.posted = [receive for receive in self._matching.posted if receive not in found]
        return [receive.site for receive in found]

    def drain(self) -> None:
        """Take in the messages that have come, though nobody waits for them."""
        self._matching.drain()

    @property
    def served(self) -> int:
        """How often a receive has got a message, or a send its receipt."""
        return self._matching.served

    # --- how ----------------------------------------------------------------------------------------------------------

    def _note_wait(self, works: Sequence[Work[Any]]) -> None:
        """Record the message that a thread waits for: the first of several."""
        for work in works:
            if isinstance(work, PostedReceive):
                self.dispatcher.recorder.wait_for_message(_RECEIVES, self._number(work.source), work.wanted[1])
                return
            if isinstance(work, Receipt):
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

    def _look(self, waits_for: Work[Any] | None = None) -> None:
        """Take what has come; see `Matching.look`."""
        with self._matching.lock, self.native:
            self._matching.look(waits_for)
            self.sends.look()

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
                with self._matching.lock, self.native:
                    one = self._matching.first(
                        lambda sender, its_tag: source in (ANY, sender) and tag in (ANY, its_tag)
                    )
                    if one is not None and takes:
                        self._matching.unexpected.remove(one)
                        self._matching.take(one)
                if one is not None:
                    return one
                if look_within is not None and (found := look_within()) is not None:
                    return found
                if not waits:
                    return None
                self._limits.check(operation, source, begun + d.timeout, NOTHING)
                is_late = time.monotonic() - begun > waiting.MESSAGE_AWAKE
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
        if is_late and not self._matching.is_moving:
            time.sleep(waiting.NAP)
        else:
            self.native.wait(waiting.MOMENT_BETWEEN_NS if looks_within else waiting.MOMENT_NS)

    # --- failures -----------------------------------------------------------------------------------------------------

    def _fail_late(self) -> None:
        """Make receives and synchronous sends fail that are late or cannot complete, now and then."""
        d, now = self.dispatcher, time.monotonic()
        if now < self._checked_at + waiting.RECEIVES:
            return
        self._checked_at = now
        d.progress.look()
        with self._matching.lock, self.native:
            self._limits.look_at_lives([receive.source for receive in self._matching.posted if receive.source != ANY])
            late = [(one.operation, [one.source], NOTHING) for one in self._matching.posted if now > one.deadline]
            late += self.sends.late(now)
            coming = [(one.receive.operation, one) for one in self._matching.coming if one.receive is not None]
            late += [(name, [one.source], NOT_ALL) for name, one in coming if now > one.begun + d.timeout]
        if late and d.failures.ended is None:
            self._limits.timed_out(*late[0])
        if d.failures.ended is None and not d.group.has_ended():
            return
        try:
            d.failures.raise_if_ended("recv")
        except ShmcollError as error:
            self._give_up(error)

    def _give_up(self, error: ShmcollError) -> None:
        """Make all receives and synchronous sends fail."""
        with self._matching.lock, self.native:
            works: list[Work[Any]] = [receive for receive in self._matching.posted if receive.take()]
            works += [one.receive for one in self._matching.coming if one.receive is not None]
            works += self.sends.give_up()
            self._matching.posted.clear()
            for one in self._matching.coming:
                one.receive = None
        for work in works:
            work.settle(error)

    @property
    def uses_arrays(self) -> bool:
        """Whether MPI reads or writes the array of a call, which the program may free if the call is interrupted."""
        return self.sends.sends_arrays or self.native.receives_array

    def close(self) -> None:
        """Wait until what has been sent has left, as far as MPI moves it, and stop. In a group that has ended nobody
        waits for a message any more."""
        d = self.dispatcher
        if d.failures.ended is None:
            self._matching.pending_sends.finish(d.progress.drain)
        with self._matching.lock:
            left = self._matching.pending_sends.abandoned()
            for one in self._matching.coming:
                d.progress.abandon([(request, True) for request in one.requests], one)
        self.native.shut()
        if (payload := self.native.take_payload()) is not None:
            d.progress.abandon([(payload[0], True)])
        if (ready := self.native.take_ready()) is not None:
            left.append(([ready], self.native))
        for requests, memory in left:
            d.progress.abandon([(request, False) for request in requests], memory)
