"""send_object: its arguments, and the call of `send` with the bytes of the object."""

from typing import Any

from shmcoll.calls import arguments as given
from shmcoll.calls.pickling import as_message
from shmcoll.calls.send import Sending
from shmcoll.runtime.dispatcher import Dispatcher


def send_object(dispatcher: Dispatcher, value: Any, dest: Any, tag: Any) -> None:
    dest, tag = check_address(dispatcher, dest, tag)
    with dispatcher.checking("send_object") as check:
        array, form, _kept = as_message(value, *check)
    sending = Sending(dispatcher, array, dest, tag, form)
    dispatcher.complete("send_object", sending.put_beside_receives)
    sending.raise_refusal()


def check_address(dispatcher: Dispatcher, dest: Any, tag: Any) -> tuple[int, int]:
    with dispatcher.checking("send_object") as check:
        return given.as_peer(dest, "dest", dispatcher.size, *check), given.as_tag(tag, "tag", *check)
