"""send_object: its arguments, and the call of `send` with the bytes of the object.

The native entry has the first try, as for an array. If it cannot enter, or the object is a table of segments while
receives are posted, `Sending` makes the call.
"""

from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.pickling import as_message
from shmcoll.calls.send import Sending, go_on
from shmcoll.engine import context as c
from shmcoll.engine.layout import LARGEST_TAG
from shmcoll.engine.messages.ring_buffers import SYNCHRONOUS, WHOLE
from shmcoll.engine.messages.send import BEGIN
from shmcoll.runtime.dispatcher import Dispatcher

Packed = tuple[np.ndarray, int, int, int, Any]  # what a `Sending` is made of


def send_object(dispatcher: Dispatcher, value: Any, dest: Any, tag: Any) -> None:
    put_object(dispatcher, *check_object(dispatcher, "send_object", value, dest, tag))


def put_object(dispatcher: Dispatcher, array: np.ndarray, dest: int, tag: int, form: int, kept: Any) -> None:
    """Send an object as `check_object` has returned it."""
    entry, status, sending = dispatcher.routine("send"), c.BUSY, None
    if form == WHOLE or dispatcher.posted.is_empty():
        try:
            status = entry(array, None, BEGIN, dest, tag, form)
            if status == c.ASKS:
                status, sending = go_on(dispatcher, array, dest, tag, form, kept)
        except BaseException:
            dispatcher.left("send_object")
            raise
    if status == c.BUSY:
        Sending(dispatcher, array, dest, tag, form, kept).send()
    elif status:
        raise dispatcher.failures.error("send_object", status)
    elif sending:
        sending.raise_refusal()


def send_object_synchronously(dispatcher: Dispatcher, value: Any, dest: Any, tag: Any) -> None:
    of_object(dispatcher, value, dest, tag, SYNCHRONOUS).send_and_wait()


def of_object(dispatcher: Dispatcher, value: Any, dest: Any, tag: Any, more: int = 0) -> Sending:
    """Return a message, checked, to be sent. more: SYNCHRONOUS or 0."""
    array, dest, tag, form, kept = check_object(dispatcher, "send_object", value, dest, tag)
    return Sending(dispatcher, array, dest, tag, form | more, kept)


def check_object(dispatcher: Dispatcher, operation: str, value: Any, dest: Any, tag: Any) -> Packed:
    try:
        rank = dispatcher.failures.name
        if not is_address(dispatcher, dest, tag):
            dest, tag = _as_address(dispatcher, dest, tag, operation, rank)
        array, form, kept = as_message(value, operation, rank)
    except Exception as error:
        dispatcher.refused(operation, error)
        raise
    return array, dest, tag, form, kept


def is_address(dispatcher: Dispatcher, dest: Any, tag: Any) -> bool:
    """Return whether these are certainly a rank and a tag."""
    return type(dest) is type(tag) is int and 0 <= dest < dispatcher.size and 0 <= tag <= LARGEST_TAG


def check_address(dispatcher: Dispatcher, dest: Any, tag: Any, operation: str = "send_object") -> tuple[int, int]:
    with dispatcher.checking(operation) as check:
        return _as_address(dispatcher, dest, tag, *check)


def _as_address(dispatcher: Dispatcher, dest: Any, tag: Any, operation: str, rank: int) -> tuple[int, int]:
    return given.as_peer(dest, "dest", dispatcher.size, operation, rank), given.as_tag(tag, "tag", operation, rank)
