"""sendrecv: its arguments, and long arrays both ways at once, by ring buffers in the caches (`engine/messages`).

An array that is stored at once is sent before the other is received. What follows is about all others.

An asynchronous call, and a call with objects, posts the receive and then sends. A send that waits for room reads
meanwhile for the posted receives. So these calls need no memory for long messages, either.
"""

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import exact
from shmcoll.calls.joined import Joined
from shmcoll.calls.recv import Received, as_target, can_receive, go_on, leave, make, receive, recv, told, wanted
from shmcoll.calls.recv_object import make_object, recv_object
from shmcoll.calls.send import Sending, as_sent, can_send, send, send_at_once
from shmcoll.calls.send_object import Packed, is_address, put_object
from shmcoll.engine import context as c
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.recv import MARK, SEEK
from shmcoll.engine.messages.ring_buffers import ARRAY, USUAL_RING, WHOLE
from shmcoll.errors import ArenaError
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.posted_receives import PostedReceive
from shmcoll.runtime.work import Work

SHORT_BYTES = USUAL_RING // 2  # longest message that is sent without waiting for a receiver


class Expected:
    """The receiving half. begun: the array into which it has begun to read a message; None until one has arrived."""

    def __init__(self, dispatcher: Dispatcher, place: np.ndarray | None, source: int, tag: int):
        self._dispatcher = dispatcher
        self._entry = dispatcher.routine("recv")  # loaded before anything is sent
        self._wanted = place, source, tag
        self.begun: np.ndarray | None = None

    def attach(self) -> np.ndarray | None:
        """See `Companion` in `calls/send.py`. No other call may enter before `finish`."""
        if self.begun is None:
            mail, (place, source, tag) = self._dispatcher.buffers, self._wanted
            status = self._entry(None, None, SEEK, source, tag, ARRAY)
            if status == c.LOOKED and mail.is_found and mail.goes_into(place, ARRAY):
                self.begun = mail.new_array() if place is None else place
        return None if self.begun is None else exact(self.begun)

    def finish(self) -> tuple[Any, int]:
        """Read the rest. Returns the array with the message, and the status, which contains its source and tag."""
        dispatcher, (place, source, tag) = self._dispatcher, self._wanted
        if self.begun is None:
            return receive(dispatcher, "recv", place, source, tag)
        try:
            status, array = go_on(dispatcher, self._entry, place, source, tag, begun=self.begun)
        except BaseException:
            dispatcher.left("recv")
            raise
        if status in (c.BUSY, c.GIVES_WAY):  # the sender has taken the message back, and now another thread is inside
            return receive(dispatcher, "recv", place, source, tag, status=status)
        return array, dispatcher.complete("recv", self._entry, status=status)

    def let_go(self) -> None:
        """Let other calls enter if nothing is left to read, because this rank has taken back its message to itself."""
        self._entry(None, None, MARK, ANY, ANY, ARRAY)


def sendrecv(dispatcher: Dispatcher, x: Any, dest: Any, out: Any, source: Any, sendtag: Any, recvtag: Any) -> Received:
    array, dest, sendtag, place, source, recvtag = check_arguments(dispatcher, x, dest, out, source, sendtag, recvtag)
    if array.nbytes <= SHORT_BYTES or (place is not None and given.overlap(array, place)):
        send(dispatcher, array, dest, sendtag)
        return recv(dispatcher, out, source, recvtag)
    stored = send_at_once(dispatcher, array, dest, sendtag)
    if stored is not None:
        stored.wait()
        return recv(dispatcher, out, source, recvtag)
    expected, sending = Expected(dispatcher, place, source, recvtag), Sending(dispatcher, array, dest, sendtag)
    try:
        # A message that has been received cannot be taken back. But no other rank receives what a rank sends to itself
        seconds = dispatcher.timeout if dest != dispatcher.rank else 0
        status = sending.put(companion=expected, patience=seconds)
    except BaseException:
        dispatcher.left("send")
        raise
    if status == c.BUSY:
        dispatcher.check_outside("sendrecv")
        one = make(dispatcher, out, source, recvtag)
        return beside_others(dispatcher, one, partial(send, dispatcher, array, dest, sendtag))
    dispatcher.complete("send", dispatcher.routine("send"), status=status)
    if source == dispatcher.rank and sending.is_refused:
        expected.let_go()
        sending.raise_refusal()
    received, status = expected.finish()
    sending.raise_refusal()
    return told(received, out, status)


def check_arguments(
    dispatcher: Dispatcher, x: Any, dest: Any, out: Any, source: Any, sendtag: Any, recvtag: Any
) -> tuple[np.ndarray, int, int, np.ndarray | None, int, int]:
    """Return the arguments as the routines take them. For nobody they name this rank as `dest`, and ANY as `source`."""
    if can_send(dispatcher, x, dest, sendtag) and can_receive(dispatcher, out, source, recvtag):
        return x, dest, sendtag, out, source, recvtag
    with dispatcher.checking("sendrecv") as check:
        array = as_sent(x, *check)
        to = dispatcher.rank if dest is None else given.as_peer(dest, "dest", dispatcher.size, *check)
        sent = given.as_tag(sendtag, "sendtag", *check)
        by, received = wanted(dispatcher, ANY if source is None else source, recvtag, *check, tag_name="recvtag")
        return array, to, sent, as_target(given.as_memory(out), *check), by, received


def check_addresses(
    dispatcher: Dispatcher, value: Any, dest: Any, source: Any, sendtag: Any, recvtag: Any
) -> tuple[int, int]:
    """Check the arguments of a call for objects. `value` is anything; it may only be in the place of another argument.
    Returns `dest` and `source`, for nobody as `check_arguments` does."""
    if is_address(dispatcher, dest, sendtag) and can_receive(dispatcher, None, source, recvtag):
        return dest, source
    with dispatcher.checking("sendrecv_object") as check:
        to = dispatcher.rank if dest is None else given.as_peer(dest, "dest", dispatcher.size, *check)
        given.as_tag(sendtag, "sendtag", *check)
        by, _ = wanted(dispatcher, ANY if source is None else source, recvtag, *check, tag_name="recvtag")
        return to, by


def exchange_objects(dispatcher: Dispatcher, message: Packed, source: Any, tag: Any) -> Received:
    """Send an object as `check_object` has returned it, and receive another object."""
    if message[3] == WHOLE:
        put_object(dispatcher, *message)
        return recv_object(dispatcher, source, tag)
    if stored := send_at_once(dispatcher, *message):
        stored.wait()
        return recv_object(dispatcher, source, tag)
    one = make_object(dispatcher, source, tag)
    dispatcher.check_outside("sendrecv_object")
    return beside_others(dispatcher, one, Sending(dispatcher, *message).send)


def begin(dispatcher: Dispatcher, receive: Work[Any], send: Callable[[], Work[None]]) -> Work[Any]:
    """Post a receive that only this call knows of, unless it has ended already, and start a send."""
    if isinstance(receive, PostedReceive):
        dispatcher.posted.enter(receive)
    try:
        return Joined(dispatcher, [receive, send()], itemgetter(0))
    except BaseException:  # the user has no handle
        receive.cancel()
        raise


def beside_others(dispatcher: Dispatcher, one: PostedReceive, send: Callable[[], None]) -> Received:
    """Post a receive that only this call knows of, send, and return what is received. If asynchronous work is pending,
    both halves take their turns behind it."""
    refusal = None
    try:
        dispatcher.posted.enter(one)
        send()
    except ArenaError as error:
        refusal = error
    except BaseException:
        if not one.done():
            leave(dispatcher, one, "send")
        raise
    try:
        result: Received = one.wait()
    except BaseException as error:
        if not one.done():
            leave(dispatcher, one, "recv")
        raise error from refusal
    if refusal:
        raise refusal
    return result
