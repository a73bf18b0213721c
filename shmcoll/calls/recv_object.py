"""recv_object: its arguments, the call of `recv`, and the object that its bytes make."""

from typing import Any

import numpy as np

from shmcoll.calls.pickling import of_message
from shmcoll.calls.recv import Received, receive, told, wanted
from shmcoll.engine.messages.ring_buffers import WHOLE
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.posted_receives import PostedReceive
from shmcoll.runtime.work import Work


def recv_object(dispatcher: Dispatcher, source: Any, tag: Any) -> Received:
    with dispatcher.checking("recv_object") as check:
        source, tag = wanted(dispatcher, source, tag, *check)
    return made(*receive(dispatcher, "recv_object", None, source, tag, WHOLE))


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
