"""Unexpected messages of ranks of other nodes, and posted receives: which message each receive gets.

Each head is compared with the posted receives in their order, and each new receive with the unexpected messages, in
their order. So two messages of one rank never overtake each other. The bytes that follow a head are received when it is
read: into the array of the receive that gets the message, or into a new one, where the message stays until a receive
takes it.

All lists here are of the thread that has `lock` and keeps native code out (`native/message_state.py`).
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls.recv import part_of
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.ring_buffers import SOURCE_SHIFT
from shmcoll.errors import ShmcollError
from shmcoll.nodes.mpi import waiting
from shmcoll.nodes.mpi.wire import MESSAGE, PAYLOAD, READY, RECEIPT, Pending, as_bytes, at_address
from shmcoll.nodes.point_to_point.message_limits import NOT_ALL, Limits
from shmcoll.nodes.point_to_point.message_state import LeftSend, MessageState
from shmcoll.nodes.point_to_point.pending_sends import PendingSends
from shmcoll.nodes.point_to_point.unexpected import UnexpectedMessage
from shmcoll.runtime.posted_receive import PostedReceive
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_WORD = 8


class Matching:
    """The messages from other nodes to one rank of a group."""

    def __init__(self, dispatcher: "NodesDispatcher", limits: Limits):
        self._dispatcher, self._limits = dispatcher, limits
        self.lock = threading.RLock()  # apart from `native`, so that an interrupt cannot leave it locked
        self.served = 0  # how often a receive has got a message, or a send its receipt
        self.posted: list[PostedReceive] = []
        self.unexpected: list[UnexpectedMessage] = []  # that no receive has got, in the order of their heads
        self.coming: list[UnexpectedMessage] = []  # whose bytes are on their way
        self._waits_for: Work[Any] | None = None  # the thread that looks stays until this receive has its message
        self._taken: dict[int, int] = {}  # by source, when a message of it was taken last
        d, failures = dispatcher, dispatcher.failures
        self.native = MessageState(
            d.channel,
            d.progress.polls,
            self._take_over,
            lambda: bool(self.posted or self.unexpected),
            lambda: failures.ended is not None,
            d.agreement.state.function("wait_far"),
        )
        self.pending_sends = PendingSends(d.channel.wire, self.lock, self.native, failures.name)

    def look(self, waits_for: Work[Any] | None = None) -> None:
        """Take what has come, and forget receives that have been withdrawn. waits_for: the receive that this thread
        waits for, and does nothing else; then MPI moves the bytes of its message without a pause."""
        d = self._dispatcher
        with self.lock, self.native:
            self.posted = [receive for receive in self.posted if not receive.is_withdrawn]
            try:
                self._waits_for = waits_for
                self._read_heads()
            finally:
                self._waits_for = None
            for one in list(self.coming):
                if d.channel.wire.tests(one.requests):
                    one.requests = []
                    self.coming.remove(one)
                    if one.receive is not None:
                        self._complete(one, one.receive)

    def drain(self) -> None:
        """Take in the messages that have come, in a call that may be one of another group. What fails is known to this
        group then, and raised by its next call."""
        d = self._dispatcher
        if not d.failures.is_shut:
            with contextlib.suppress(ShmcollError, d.channel.wire.mpi.Exception), self.lock, self.native:
                self._read_heads()

    @property
    def is_moving(self) -> bool:
        """Whether bytes are coming for a receive, and have not been for long. MPI moves more of them in each test."""
        now = time.monotonic()
        moving = (one for one in self.coming if one.receive is not None)
        return any(now < one.begun + waiting.AWAKE + one.bytes / waiting.SLOWEST for one in moving)

    def first(self, fits: Callable[[int, int], bool]) -> UnexpectedMessage | None:
        """Return the message that a new receive gets: the first one that fits of the source served longest ago."""
        found: dict[int, UnexpectedMessage] = {}
        for one in self.unexpected:
            if one.source not in found and fits(one.source, one.tag):
                found[one.source] = one
        return min(found.values(), key=lambda one: self._taken.get(one.source, 0), default=None)

    def take(self, one: UnexpectedMessage) -> None:
        """Tell the sender that its message has been taken, if it waits for that."""
        self.served += 1
        self._taken[one.source] = self.served
        if one.wants_receipt:
            self._answer(one.number, one.source, RECEIPT)

    def give(self, one: UnexpectedMessage, receive: PostedReceive) -> None:
        """Have a receive take a message that its source and tag fit. If its array does not, the receive fails, and the
        message stays."""
        wrong = self._misfit(one, receive)
        if not receive.take():
            return  # withdrawn
        self.posted.remove(receive)
        self.served += 1
        if wrong is not None:
            receive.settle(wrong)
            return
        self.unexpected.remove(one)
        self.take(one)
        if not one.is_whole and one.target is None:
            self._begin_bytes(one, receive.place, is_awaited=receive is self._waits_for)
        if not one.requests:
            self._complete(one, receive)
        else:
            one.receive, one.begun = receive, time.monotonic()

    def read(self, world: int, length: int, kind: int) -> np.ndarray:
        """Receive a message that MPI has found, from a rank of the job."""
        d, data = self._dispatcher, np.empty(length, np.uint8)
        requests = d.channel.wire.irecv(data, world, d.channel.tag(kind))
        self.wait_for(requests, d.channel.ranks.index(world), data)
        return data

    def wait_for(self, requests: list[Any], source: int, memory: np.ndarray, *status: Any) -> None:
        """Wait for a message that MPI has found, which takes as long as the sender needs to move it. status: of MPI, to
        be filled."""
        d, end, turn = self._dispatcher, time.monotonic() + self._dispatcher.timeout, 0
        try:
            while not d.channel.wire.tests(requests, list(status) or None):
                turn += 1
                if turn % 16 == 0:
                    self._limits.check("recv", source, end, NOT_ALL)
                    self._limits.look_at_lives([source])
                    d.failures.raise_if_ended("recv")
                pause(turn)
        except BaseException:
            d.progress.abandon([(request, True) for request in requests], memory)
            d.left("recv")  # the message is lost
            raise

    # --- how ----------------------------------------------------------------------------------------------------------

    def _read_heads(self) -> None:
        self._guarded(self._read_what_has_come)

    def _read_what_has_come(self) -> None:
        wire, channel = self._dispatcher.channel.wire, self._dispatcher.channel
        while (found := wire.probe(channel.tag(MESSAGE))) is not None:
            self._read_head(found[0], self.read(*found, MESSAGE))
        while self.native.has_asked and (found := wire.probe(channel.tag(READY))) is not None:
            self.read(*found, READY)  # too late: native code is out

    def _guarded(self, take: Callable[[], None]) -> None:
        """Take something in. An interrupt in the midst of that may lose a message, or leave its bytes to the next one:
        so it ends the group."""
        try:
            take()
        except (ShmcollError, self._dispatcher.channel.wire.mpi.Exception):
            raise
        except BaseException:
            self._dispatcher.left("recv")
            raise

    def _take_over(self) -> None:
        """Take over what native code has left."""
        self._guarded(self._take_what_is_left)

    def _take_what_is_left(self) -> None:
        if (left := self.native.take_send()) is not None:
            self._send_rest(left)
        if (found := self.native.take_found()) is not None:
            self._read_head(self.native.source, found)
        if (matched := self.native.take_matched()) is not None:
            request, memory = matched
            status = self._dispatcher.channel.wire.mpi.Status()
            self.wait_for([request], ANY, memory, status)
            self._read_head(status.Get_source(), memory)

    def _send_rest(self, left: LeftSend) -> None:
        """Send what native code has not sent of a message, and keep its memory until all of it has left. The bytes are
        not sent if the group has ended: the call may have been interrupted, and its array may have been changed."""
        d, copied = self._dispatcher, None
        if left.unsent and d.failures.ended is None:
            copied = at_address(left.address, left.unsent).copy()
            left.requests += d.channel.wire.isend(copied, left.peer, d.channel.tag(PAYLOAD))
            self.native.prepare_for(left.unsent)
        self.pending_sends.add(left.requests, (left.memory, copied), 0 if left.unsent else left.address)

    def _read_head(self, world: int, data: np.ndarray) -> None:
        """Take in the message of a rank of the job that begins with a head."""
        one = UnexpectedMessage(self._dispatcher.channel.ranks.index(world), data)
        self.unexpected.append(one)
        for receive in list(self.posted):
            if receive.fits(one.source, one.tag):
                self.give(one, receive)
                if one not in self.unexpected:
                    return
        if not one.is_whole:
            self._begin_bytes(one, None)

    def _begin_bytes(self, one: UnexpectedMessage, place: np.ndarray | None, *, is_awaited: bool = False) -> None:
        """Begin to receive the bytes that follow a head. is_awaited: whether a thread does nothing but wait for them; a
        sender that asks, and has not sent them yet, is told so."""
        channel = self._dispatcher.channel
        tells = is_awaited and one.asked and channel.wire.probe(channel.tag(PAYLOAD), channel.ranks[one.source]) is None
        pending = Pending(channel)
        pending.recv(one.aim(place), one.source, PAYLOAD)
        one.requests = pending.requests
        self.coming.append(one)
        if tells:
            self._answer(one.asked, one.source, READY)

    def _answer(self, number: int, dest: int, kind: int) -> None:
        """Send a number back to the sender of a message."""
        pending = Pending(self._dispatcher.channel)
        pending.send(np.array([number], np.int64).view(np.uint8), dest, kind)
        self.pending_sends.add(pending.requests)

    def _misfit(self, one: UnexpectedMessage, receive: PostedReceive) -> Exception | None:
        name, place = self._dispatcher.failures.name, receive.place
        where = f"{receive.operation} on rank {name}: the message of rank {one.source} with tag {one.tag}"
        if receive.operation == "recv_object":
            return None if one.is_object else TypeError(f"{where} is an array of {one.dtype}; use recv")
        if one.is_object:
            return TypeError(f"{where} is an object; use recv_object")
        if place is None:
            return None
        if place.dtype != one.dtype:
            return TypeError(f"{where} has dtype {one.dtype}, out has {place.dtype}")
        if one.count > place.size:
            return ValueError(f"{where} has {one.count} elements, out has room for {place.size}")
        return None

    def _complete(self, one: UnexpectedMessage, receive: PostedReceive) -> None:
        """Make the result of a receive whose message has come."""
        if one.is_object:
            array = one.memory if one.memory.ctypes.data % _WORD == 0 else one.memory.copy()
        elif receive.place is None:
            array = one.array()
        else:
            array = part_of(receive.place, one.count)
            if one.target is None or not np.may_share_memory(array, one.target):
                as_bytes(array)[:] = one.memory
        outcome: Any
        try:
            outcome = receive.finish(array, -1 - (one.source << SOURCE_SHIFT | one.tag))
        except BaseException as error:
            outcome = error
        receive.settle(outcome)


def pause(turn: int) -> None:
    """Let other threads and ranks run between two tests."""
    if turn > waiting.MESSAGE_POLLS:
        time.sleep(waiting.NAP)
    else:
        os.sched_yield()
