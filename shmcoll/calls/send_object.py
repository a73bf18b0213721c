"""send_object: its arguments, and the call of `send` with the bytes of the object."""

from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.pickling import as_message
from shmcoll.calls.send import Sending
from shmcoll.engine.messages.ring_buffers import SYNCHRONOUS
from shmcoll.runtime.dispatcher import Dispatcher

Packed = tuple[np.ndarray, int, int, int, list[np.ndarray]]  # what a `Sending` is made of


def send_object(dispatcher: Dispatcher, value: Any, dest: Any, tag: Any) -> None:
    of_object(dispatcher, value, dest, tag).send()


def send_object_synchronously(dispatcher: Dispatcher, value: Any, dest: Any, tag: Any) -> None:
    of_object(dispatcher, value, dest, tag, SYNCHRONOUS).send_and_wait()


def of_object(dispatcher: Dispatcher, value: Any, dest: Any, tag: Any, more: int = 0) -> Sending:
    """Return a message, checked, to be sent. more: SYNCHRONOUS or 0."""
    array, dest, tag, form, kept = check_object(dispatcher, "send_object", value, dest, tag)
    return Sending(dispatcher, array, dest, tag, form | more, kept)


def check_object(dispatcher: Dispatcher, operation: str, value: Any, dest: Any, tag: Any) -> Packed:
    with dispatcher.checking(operation) as check:
        dest, tag = _as_address(dispatcher, dest, tag, *check)
        array, form, kept = as_message(value, *check)
    return array, dest, tag, form, kept


def check_address(dispatcher: Dispatcher, dest: Any, tag: Any, operation: str = "send_object") -> tuple[int, int]:
    with dispatcher.checking(operation) as check:
        return _as_address(dispatcher, dest, tag, *check)


def _as_address(dispatcher: Dispatcher, dest: Any, tag: Any, operation: str, rank: int) -> tuple[int, int]:
    return given.as_peer(dest, "dest", dispatcher.size, operation, rank), given.as_tag(tag, "tag", operation, rank)
