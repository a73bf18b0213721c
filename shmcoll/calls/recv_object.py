"""recv_object: its arguments, the call of `recv`, and the object that its bytes make.

An object of few bytes is read into memory that is used again, by one call of the native entry: its pickle says itself
where it ends, and what is loaded from it is a copy. A longer message, or an array, does not fit there, and stays. Then,
and if native code cannot make the call, `receive` begins again.
"""

from typing import Any

import numpy as np

from shmcoll.calls.pickling import LEAST_BUFFER, of_message, of_short_message
from shmcoll.calls.recv import Received, can_receive, receive, received, told, wanted
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.messages.recv import FILL
from shmcoll.engine.messages.ring_buffers import WHOLE
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.posted_receives import PostedReceive
from shmcoll.runtime.work import Work

_free: list[np.ndarray] = []  # memory for short messages that no call uses


def recv_object(dispatcher: Dispatcher, source: Any, tag: Any) -> Received:
    if not can_receive(dispatcher, None, source, tag):
        with dispatcher.checking("recv_object") as check:
            source, tag = wanted(dispatcher, source, tag, *check)
    entry = dispatcher.routine("recv")
    try:
        memory = _free.pop()
    except IndexError:
        memory = np.empty(WORD + LEAST_BUFFER, np.uint8)
    try:
        status = entry(None, memory, FILL, source, tag, WHOLE)
    except BaseException:
        dispatcher.left("recv_object")
        raise
    if status < c.OK:
        found = received(of_short_message(memory), status)
        _free.append(memory)
        return found
    _free.append(memory)
    if status in (c.DOES_NOT_FIT, c.NEEDS_PYTHON):  # over nodes, the latter if any rank may be the source
        status = c.BUSY
    return made(*receive(dispatcher, "recv_object", None, source, tag, WHOLE, status))


def post_object(dispatcher: Dispatcher, source: Any, tag: Any) -> Work[Any]:
    """Post a receive of an object, and return its handle."""
    receive = make_object(dispatcher, source, tag)
    dispatcher.posted.enter(receive)
    return receive


def make_object(dispatcher: Dispatcher, source: Any, tag: Any) -> PostedReceive:
    """Check the arguments of a receive, and return it ready to be posted."""
    dispatcher.routine("recv")  # loaded here, and not by the worker
    with dispatcher.checking("recv_object") as check:
        source, tag = wanted(dispatcher, source, tag, *check)
    return dispatcher.posted.make("recv_object", None, source, tag, made)


def made(memory: np.ndarray, status: int) -> Received:
    """Return (object, source, tag) for the user, from the bytes of the message and the status."""
    _, source, tag = told(memory, None, status)
    return of_message(memory), source, tag
