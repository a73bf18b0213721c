"""Messages between two ranks as methods of a communicator. How they travel: `engine/messages/ring_buffers.py`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shmcoll import calls
from shmcoll.calls.recv import go_on, make, post
from shmcoll.calls.recv_object import post_object
from shmcoll.calls.send import Sending, send_at_once
from shmcoll.calls.send import check_arguments as check_send
from shmcoll.calls.sendrecv import SHORT_BYTES
from shmcoll.communicator.collectives import Collectives, _Native
from shmcoll.engine import context as c
from shmcoll.engine.layout import ANY, LARGEST_TAG
from shmcoll.runtime.async_worker import Work

_HALFWAY = c.HALFWAY


@dataclass(frozen=True)
class Send:
    """A message for `comm.batch`: the arguments of `comm.send`."""

    x: Any
    dest: int
    tag: int = 0


@dataclass(frozen=True)
class Recv:
    """A receive for `comm.batch`: the arguments of `comm.recv`."""

    out: Any = None
    source: int = ANY
    tag: int = ANY


class Messages(Collectives):
    """What two ranks can do without the others."""

    _send = _Native()
    _recv = _Native()

    def send(self, x: Any, dest: int, tag: int = 0, *, async_op: bool = False) -> Any:
        """Send an array to rank `dest` of this group. Not a collective: that rank receives it, when it likes.

        x: array of any shape and of a dtype that collectives know. tag: 0 to 2**31 - 1. Messages from one rank to
        another arrive in the order in which they were sent; the receiver may choose among them by tag.

        Returns as soon as `x` may be changed. It does not wait for the receiver: a message that the receiver does not
        wait for is kept in shared memory. So both sides may send first, and a rank may send to itself. Raises
        `ArenaError` when the heap allows no more of that (`shmrun --heap`, SHMCOLL_HEAP): then this message has not
        been sent, those before stay, and the group goes on. `RankFailed` when the receiver has left.
        """
        if async_op:
            return send_at_once(self._dispatcher, x, dest, tag) or self._submit(calls.send, x, dest, tag)
        sending = None
        try:
            status = self._send(x, None, 0, dest, tag, 0)
            if status == _HALFWAY:
                sending = Sending(self._dispatcher, x, dest, tag)
                status = sending.put(status)
        except BaseException:
            self._dispatcher.left("send")
            raise
        if status:
            return self._again("send", status, calls.send, x, dest, tag)
        if sending:
            sending.raise_refusal()
        return None

    def recv(self, out: Any = None, source: int = ANY, tag: int = ANY, *, async_op: bool = False) -> Any:
        """Receive a message: (array, source, tag). Waits for it, for up to `timeout`. Not a collective.

        source: a rank of this group; tag: 0 to 2**31 - 1; either may be `shmcoll.ANY`. Of the messages that fit, the
        first that its rank has sent.

        Without `out` the array has the dtype and shape that were sent. `out` is an array of the same dtype and at least
        as many elements, of any shape: it is filled in C order and returned. A message of fewer elements fills the
        first of them, and the array returned is those alone, in one dimension. A longer message is a `ValueError`, one
        of another dtype a `TypeError`; the message stays and can be received again.

        With `async_op=True` the receive is posted and returns a `Work` at once, whose result is the same. It keeps no
        other operation waiting. Receives take what fits them in the order in which they were posted. `Work.cancel`
        withdraws one whose message has not come.

        Raises `RankFailed` when `source` has left, or for ANY a rank has failed or all have left; `ValueError` for a
        message from this rank itself that has not been sent.
        """
        if async_op:
            return post(self._dispatcher, out, source, tag)
        array, entry = out, self._recv
        try:
            status = entry(None, out, 0, source, tag, 0)
            if status == _HALFWAY:
                status, array = go_on(self._dispatcher, entry, out, source, tag)
        except BaseException:
            self._dispatcher.left("recv")
            raise
        if status < 0:
            code = -1 - status
            return array, code >> 32, code & 0x7FFFFFFF
        return self._again("recv", status, calls.recv, out, source, tag)

    def send_object(self, value: Any, dest: int, tag: int = 0, *, async_op: bool = False) -> Any:
        """Send anything that can be pickled, of any size, to rank `dest`, as `send` does. For `recv_object` alone.

        Arrays of 16 KiB and more within it are not pickled, but moved from where they lie. With `async_op=True` it is
        pickled later: leave it alone until the work is done. Errors as of `send`, and `TypeError`, with nothing sent,
        for an object that cannot be pickled.
        """
        if async_op:
            return self._submit(calls.send_object, value, dest, tag)
        return calls.send_object(self._dispatcher, value, dest, tag)

    def recv_object(self, source: int = ANY, tag: int = ANY, *, async_op: bool = False) -> Any:
        """Receive an object: (object, source, tag). It and what it holds are this rank's own.

        source, tag, and `async_op=True`: as for `recv`. Of the messages that fit, objects and arrays alike, the first
        that its rank has sent: `TypeError` when it is an array, and for an object that `recv` meets; the message stays
        and can be received rightly. Arrays that were not pickled share one piece of memory, which any of them keeps.
        """
        if async_op:
            return post_object(self._dispatcher, source, tag)
        return calls.recv_object(self._dispatcher, source, tag)

    def sendrecv(
        self, x: Any, dest: int, out: Any = None, source: int = ANY, sendtag: int = 0, recvtag: int = ANY
    ) -> tuple[Any, int, int]:
        """`send(x, dest, sendtag)` and `recv(out, source, recvtag)`, whose result it returns.

        Long arrays travel both ways at once. `out` may be `x`, or part of it: then all of it is sent first, and a long
        one is copied once more.
        """
        if type(x) is np.ndarray and x.nbytes <= SHORT_BYTES and self._can_receive(out, source, recvtag):
            self.send(x, dest, sendtag)
            return self.recv(out, source, recvtag)
        arguments = x, dest, out, source, sendtag, recvtag
        received: tuple[Any, int, int] = calls.perform(calls.sendrecv, self._dispatcher, arguments)
        return received

    def _can_receive(self, out: Any, source: Any, tag: Any) -> bool:
        """Whether nothing is wrong with the arguments of a receive, for sure."""
        if type(source) is not int or type(tag) is not int:
            return False
        in_place = out is None or (type(out) is np.ndarray and out.flags.writeable)
        return in_place and ANY <= source < self.size and ANY <= tag <= LARGEST_TAG

    def batch(self, messages: Sequence[Send | Recv]) -> list[Work]:
        """Start many messages at once: a `Work` for each, in the order given. Not a collective.

        messages: `shmcoll.Send(x, dest, tag)` and `shmcoll.Recv(out, source, tag)`. All receives are posted before the
        first message is sent. What is wrong with one of them is raised before anything of the batch has begun.
        """
        dispatcher = self._dispatcher
        if not isinstance(messages, Iterable):
            raise TypeError(
                f"batch on rank {dispatcher.failures.name}: messages must be a sequence of shmcoll.Send and "
                f"shmcoll.Recv, "
                f"got {type(messages).__name__}"
            )
        messages = list(messages)
        checked: list[Any] = []
        for one in messages:
            if isinstance(one, Send):
                checked.append(check_send(dispatcher, one.x, one.dest, one.tag))
            elif isinstance(one, Recv):
                checked.append(make(dispatcher, one.out, one.source, one.tag))
            else:
                raise TypeError(
                    f"batch on rank {dispatcher.failures.name}: {type(one).__name__} is no message; "
                    f"use shmcoll.Send(x, dest, tag) and shmcoll.Recv(out, source, tag)"
                )
        started: list[Any] = [None] * len(checked)
        for i, one in enumerate(messages):
            if isinstance(one, Recv):
                started[i] = dispatcher.posted.enter(checked[i])
        for i, one in enumerate(messages):
            if isinstance(one, Send):
                started[i] = self.send(*checked[i], async_op=True)
        return started


__all__ = ["ANY", "Messages", "Recv", "Send"]
