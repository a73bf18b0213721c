"""send_object: its arguments, and the call of `send` with the bytes of the object."""

from typing import Any

from shmcoll import arguments as given
from shmcoll.caller import Caller
from shmcoll.calls.send import put_beside
from shmcoll.errors import ArenaError
from shmcoll.frames import as_message


def send_object(caller: Caller, value: Any, dest: Any, tag: Any) -> None:
    with caller.checking("send_object") as check:
        dest, tag = given.as_peer(dest, "dest", caller.size, *check), given.as_tag(tag, "tag", *check)
        array, form, _kept = as_message(value, *check)
    refused: list[ArenaError] = []
    entry = caller.routine("send")
    caller.complete("send_object", lambda: put_beside(caller, entry, array, dest, tag, refused, form))
    if refused:
        raise refused[0]
