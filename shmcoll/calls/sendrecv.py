"""sendrecv: its arguments, and long arrays both ways at once, by ring buffers in the caches (`engine/messages`)."""

from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.recv import Received, go_on, leave, make, receive, recv, told
from shmcoll.calls.recv import check_arguments as check_recv
from shmcoll.calls.send import Sending, send
from shmcoll.calls.send import check_arguments as check_send
from shmcoll.engine import context as c
from shmcoll.engine.layout import ANY, WORD
from shmcoll.engine.messages.recv import MARK, SEEK
from shmcoll.engine.messages.ring_buffers import ARRAY, USUAL_RING
from shmcoll.errors import ArenaError
from shmcoll.runtime.dispatcher import Caller
from shmcoll.runtime.posted_receives import Receive

SHORT_BYTES = USUAL_RING // 2  # what is sent without waiting for a receiver


class Expected:
    """The receiving half: `begun` is where it has begun to read a message, None while none has come."""

    def __init__(self, caller: Caller, place: np.ndarray | None, source: int, tag: int):
        self._caller = caller
        self._wanted = place, source, tag
        self.begun: np.ndarray | None = None

    def attach(self) -> np.ndarray | None:
        """See `Companion` in `calls/send.py`. Nobody else may enter before `finish`."""
        if self.begun is None:
            mail, (place, source, tag) = self._caller.mail, self._wanted
            status = self._caller.routine("recv")(None, None, SEEK, source, tag, ARRAY)
            if status == c.HALFWAY and mail.is_found and mail.goes_into(place, ARRAY):
                self.begun = mail.new_array() if place is None else place
        return self.begun

    def finish(self) -> tuple[Any, int]:
        """Read the rest: where the message lies, and the status that says where it came from."""
        caller, (place, source, tag) = self._caller, self._wanted
        if self.begun is None:
            return receive(caller, "recv", place, source, tag)
        try:
            status, array = go_on(caller, caller.routine("recv"), place, source, tag, begun=self.begun)
        except BaseException:
            caller.left("recv")
            raise
        if status == c.BUSY:  # its sender has taken it back, and now another thread is inside
            return receive(caller, "recv", place, source, tag)
        return array, caller.complete("recv", caller.routine("recv"), status=status)

    def let_go(self) -> None:
        """Let others enter, where nothing is left to read: this rank has taken back its message to itself."""
        self._caller.routine("recv")(None, None, MARK, ANY, ANY, ARRAY)


def sendrecv(caller: Caller, x: Any, dest: Any, out: Any, source: Any, sendtag: Any, recvtag: Any) -> Received:
    array, dest, sendtag = check_send(caller, x, dest, sendtag)
    place, source, recvtag = check_recv(caller, out, source, recvtag)
    if array.nbytes <= SHORT_BYTES or (place is not None and given.overlap(array, place)):
        send(caller, array, dest, sendtag)
        return recv(caller, out, source, recvtag)
    expected, sending = Expected(caller, place, source, recvtag), Sending(caller, array, dest, sendtag)
    try:
        # What has been received cannot be taken back; but nobody else can receive what a rank sends to itself
        seconds = caller.words.item(c.TIMEOUT // WORD) / 1e9 if dest != caller.rank else 0
        status = sending.put(companion=expected, patience=seconds)
    except BaseException:
        caller.left("send")
        raise
    if status == c.BUSY:
        caller.check_outside("sendrecv")
        return beside_others(caller, array, dest, make(caller, out, source, recvtag), sendtag)
    caller.complete("send", caller.routine("send"), status=status)
    if source == caller.rank and sending.is_refused:
        expected.let_go()
        sending.raise_refusal()
    received, status = expected.finish()
    sending.raise_refusal()
    return told(received, out, status)


def beside_others(caller: Caller, array: np.ndarray, dest: int, one: Receive, tag: int) -> Received:
    """Asynchronous work is pending: both halves take their turns behind it."""
    refusal = None
    try:
        caller.receives.enter(one)
        send(caller, array, dest, tag)
    except ArenaError as error:
        refusal = error
    except BaseException:
        if not one.work.done():
            leave(caller, one, "send")
        raise
    try:
        result: Received = one.work.wait()
    except BaseException as error:
        if not one.work.done():
            leave(caller, one, "recv")
        raise error from refusal
    if refusal:
        raise refusal
    return result
