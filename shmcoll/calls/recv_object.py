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
    """A receive that waits without keeping others from anything."""
    receive = make_object(dispatcher, source, tag)
    dispatcher.posted.enter(receive)
    return receive


def make_object(dispatcher: Dispatcher, source: Any, tag: Any) -> PostedReceive:
    """A receive, checked, to be posted."""
    dispatcher.routine("recv")  # loaded here, and not by the worker
    with dispatcher.checking("recv_object") as check:
        source, tag = wanted(dispatcher, source, tag, *check)
    return dispatcher.posted.make("recv_object", None, source, tag, made)


def made(memory: np.ndarray, status: int) -> Received:
    """Return what the user gets of a message that is an object."""
    _, source, tag = told(memory, None, status)
    return of_message(memory), source, tag
