"""send_object: its arguments, and the call of `send` with the bytes of the object."""

from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.delivery import Delivery, check_other_rank
from shmcoll.calls.pickling import as_message
from shmcoll.calls.send import Sending, put_synchronously
from shmcoll.engine.messages.ring_buffers import SYNCHRONOUS
from shmcoll.runtime.dispatcher import Dispatcher

Packed = tuple[np.ndarray, int, int, int, list[np.ndarray]]  # message, receiver, tag, form; what is kept meanwhile


def send_object(dispatcher: Dispatcher, value: Any, dest: Any, tag: Any) -> None:
    send_packed(dispatcher, *check_object(dispatcher, "send_object", value, dest, tag))


def send_object_synchronously(dispatcher: Dispatcher, value: Any, dest: Any, tag: Any) -> None:
    packed = check_object(dispatcher, "send_object", value, dest, tag)
    _, dest, tag, _, _ = packed
    check_other_rank(dispatcher, "send_object", dest, tag)
    _put(dispatcher, *packed).wait()


def send_object_later(dispatcher: Dispatcher, value: Any, dest: Any, tag: Any) -> Delivery:
    """Do the first half of `send_object_synchronously`: send."""
    return _put(dispatcher, *check_object(dispatcher, "send_object", value, dest, tag))


def _put(
    dispatcher: Dispatcher, array: np.ndarray, dest: int, tag: int, form: int, _kept: list[np.ndarray]
) -> Delivery:
    return put_synchronously(dispatcher, "send_object", Sending(dispatcher, array, dest, tag, form | SYNCHRONOUS))


def check_object(dispatcher: Dispatcher, operation: str, value: Any, dest: Any, tag: Any) -> Packed:
    with dispatcher.checking(operation) as check:
        dest, tag = _as_address(dispatcher, dest, tag, *check)
        array, form, kept = as_message(value, *check)
    return array, dest, tag, form, kept


def send_packed(
    dispatcher: Dispatcher, array: np.ndarray, dest: int, tag: int, form: int, _kept: list[np.ndarray]
) -> None:
    sending = Sending(dispatcher, array, dest, tag, form)
    dispatcher.complete("send_object", sending.put_beside_receives)
    sending.raise_refusal()


def check_address(dispatcher: Dispatcher, dest: Any, tag: Any, operation: str = "send_object") -> tuple[int, int]:
    with dispatcher.checking(operation) as check:
        return _as_address(dispatcher, dest, tag, *check)


def _as_address(dispatcher: Dispatcher, dest: Any, tag: Any, operation: str, rank: int) -> tuple[int, int]:
    return given.as_peer(dest, "dest", dispatcher.size, operation, rank), given.as_tag(tag, "tag", operation, rank)
