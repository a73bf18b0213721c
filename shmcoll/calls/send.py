"""send: its arguments, its call, and what it asks for: memory, or something to read meanwhile."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from shmcoll import arguments as given
from shmcoll.caller import Caller
from shmcoll.calls.common import exact
from shmcoll.collectives.send import AT_ONCE, BLOCKED, FINISHED, GO_ON, NONE, STAY
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.rings import ARRAY
from shmcoll.errors import ArenaError

HEAP_PATIENCE = 1.0  # seconds without memory before a send beside posted receives is refused


class Companion(Protocol):
    """What is to be received while a message is sent."""

    def attach(self) -> np.ndarray | None:
        """Where to read a message that has come; None: none has. What was attached before has been read."""


def send(caller: Caller, x: Any, dest: Any, tag: Any) -> None:
    array, dest, tag = check_arguments(caller, x, dest, tag)
    refused: list[ArenaError] = []
    entry = caller.routine("send")
    caller.complete("send", lambda: put_beside(caller, entry, array, dest, tag, refused))
    if refused:
        raise refused[0]


def check_arguments(caller: Caller, x: Any, dest: Any, tag: Any) -> tuple[np.ndarray, int, int]:
    with caller.checking("send") as check:
        array = exact(given.as_array(x, *check))
        return array, given.as_peer(dest, "dest", caller.size, *check), given.as_tag(tag, "tag", *check)


def put_beside(
    caller: Caller,
    entry: Callable[..., int],
    array: np.ndarray,
    dest: int,
    tag: int,
    refused: list[ArenaError],
    form: int = ARRAY,
) -> int:
    """`put`, and posted receives meanwhile. These are the worker's, who alone calls while there are any."""
    if caller.receives.is_empty() or not caller.worker.is_me():
        return put(caller, entry, array, dest, tag, refused, form=form)
    status = put(caller, entry, array, dest, tag, refused, -1, form, caller.receives, HEAP_PATIENCE)
    caller.receives.detach()
    return c.OK if status == c.HALFWAY else status


def put(
    caller: Caller,
    entry: Callable[..., int],
    array: np.ndarray,
    dest: int,
    tag: int,
    refused: list[ArenaError],
    status: int = -1,
    form: int = ARRAY,
    companion: Companion | None = None,
    patience: float = 0,
) -> int:
    """Call the native entry, again with memory as often as it asks for some; its last status. `status`: what it has
    answered already. `form`: see `collectives/send.py`. An `ArenaError` that ends the message is put into `refused`,
    and the status is OK; HALFWAY: the same, and what is attached to the `companion` has been read in part. `patience`:
    for so many seconds go without memory, when there is none."""
    memory, place = 0, None
    deadline = time.monotonic() + patience
    caller.mail.expect(AT_ONCE if companion else 0)
    try:
        if status < 0:
            status = entry(array, None, memory, dest, tag, form)
        while status == c.HALFWAY and (asked := caller.words.item(c.DETAIL // WORD)) != FINISHED:
            if asked == 0:
                caller.mail.sweep(dest)
                memory = 0
            elif asked == BLOCKED:
                place = companion.attach() if companion else None
                memory = GO_ON
            else:
                try:
                    memory = caller.mail.new_ring(dest)
                except ArenaError as error:
                    if companion and time.monotonic() < deadline:
                        place, memory = companion.attach(), GO_ON
                    elif memory == STAY:
                        name = "send" if form == ARRAY else "send_object"
                        told = f"{name} on rank {caller.verdicts.name}: {error}. The message has not been sent"
                        refused.append(ArenaError(told))
                        memory = NONE
                    else:
                        memory = STAY
            status = entry(array, place, memory, dest, tag, form)
    except BaseException:  # a signal handler: the message is not complete
        caller.words[c.ACTIVE // WORD] = c.ENDED
        raise
    return status
