"""sendrecv of long arrays: both ways at once, through rings that stay in the caches; see `engine/rings.py`."""

from typing import Any

import numpy as np

from shmcoll.caller import Caller
from shmcoll.calls.recv import Received, go_on, post, receive, told
from shmcoll.calls.recv import check_arguments as check_recv
from shmcoll.calls.send import check_arguments as check_send
from shmcoll.calls.send import put, send
from shmcoll.collectives.recv import SEEK
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.rings import ARRAY
from shmcoll.errors import ArenaError


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
        return array, caller.complete("recv", caller.routine("recv"), status=status)


def sendrecv(caller: Caller, x: Any, dest: Any, out: Any, source: Any, sendtag: Any, recvtag: Any) -> Received:
    array, to, to_tag = check_send(caller, x, dest, sendtag)
    place, of, of_tag = check_recv(caller, out, source, recvtag)
    expected, refused = Expected(caller, place, of, of_tag), list[ArenaError]()
    try:
        seconds = caller.words.item(c.TIMEOUT // WORD) / 1e9  # for what has been received cannot be taken back
        entry = caller.routine("send")
        status = put(caller, entry, array, to, to_tag, refused, companion=expected, patience=seconds)
    except BaseException:
        caller.left("send")
        raise
    if status == c.BUSY:
        posted = post(caller, out, source, recvtag)
        send(caller, x, dest, sendtag)
        result: Received = posted.wait()
        return result
    caller.complete("send", caller.routine("send"), status=c.OK if status == c.HALFWAY else status)
    received, status = expected.finish()
    if refused:
        raise refused[0]
    return told(received, out, status)
