"""recv_object: its arguments, the call of `recv`, and the object that its bytes make."""

from typing import Any

import numpy as np

from shmcoll.calls.pickling import of_message
from shmcoll.calls.recv import Received, await_posted, receive, told, wanted
from shmcoll.engine.messages.ring_buffers import WHOLE
from shmcoll.runtime.async_worker import Work
from shmcoll.runtime.dispatcher import Caller
from shmcoll.runtime.posted_receives import Receive


def recv_object(caller: Caller, source: Any, tag: Any) -> Received:
    if not caller.receives.is_empty():  # posted before: what fits one of them is not for us
        caller.check_outside("recv_object")
        return await_posted(caller, _make(caller, source, tag))
    with caller.checking("recv_object") as check:
        source, tag = wanted(caller, source, tag, *check)
    return _made(*receive(caller, "recv_object", None, source, tag, WHOLE))


def post_object(caller: Caller, source: Any, tag: Any) -> Work:
    """A receive that waits without keeping others from anything."""
    return caller.receives.enter(_make(caller, source, tag))


def _make(caller: Caller, source: Any, tag: Any) -> Receive:
    with caller.checking("recv_object") as check:
        source, tag = wanted(caller, source, tag, *check)
    return caller.receives.make("recv_object", None, source, tag, _made)


def _made(memory: np.ndarray, status: int) -> Received:
    _, source, tag = told(memory, None, status)
    return of_message(memory), source, tag
