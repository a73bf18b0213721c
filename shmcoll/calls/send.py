"""send: its arguments, its call, and the memory that it asks for."""

from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll import arguments as given
from shmcoll.caller import Caller
from shmcoll.calls.common import exact
from shmcoll.collectives.send import NONE, STAY
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.rings import ARRAY
from shmcoll.errors import ArenaError


def send(caller: Caller, x: Any, dest: Any, tag: Any) -> None:
    array, dest, tag = check_arguments(caller, x, dest, tag)
    refused: list[ArenaError] = []
    caller.complete("send", lambda: put(caller, caller.routine("send"), array, dest, tag, refused))
    if refused:
        raise refused[0]


def check_arguments(caller: Caller, x: Any, dest: Any, tag: Any) -> tuple[np.ndarray, int, int]:
    with caller.checking("send") as check:
        array = exact(given.as_array(x, *check))
        return array, given.as_peer(dest, "dest", caller.size, *check), given.as_tag(tag, "tag", *check)


def put(
    caller: Caller,
    entry: Callable[..., int],
    array: np.ndarray,
    dest: int,
    tag: int,
    refused: list[ArenaError],
    status: int = -1,
    form: int = ARRAY,
) -> int:
    """Call the native entry, again with memory as often as it asks for some; its last status. `status`: what it has
    answered already. `form`: see `collectives/send.py`. An `ArenaError` that ends the message is put into `refused`,
    and the status is OK."""
    memory = 0
    try:
        if status < 0:
            status = entry(array, None, memory, dest, tag, form)
        while status == c.HALFWAY:
            if caller.words.item(c.DETAIL // WORD) == 0:
                caller.mail.sweep(dest)
                memory = 0
            else:
                try:
                    memory = caller.mail.new_ring(dest)
                except ArenaError as error:
                    if memory == STAY:
                        name = "send" if form == ARRAY else "send_object"
                        told = f"{name} on rank {caller.verdicts.name}: {error}. The message has not been sent"
                        refused.append(ArenaError(told))
                    memory = NONE if memory == STAY else STAY
            status = entry(array, None, memory, dest, tag, form)
    except BaseException:  # a signal handler: the message is not complete
        caller.words[c.ACTIVE // WORD] = c.ENDED
        raise
    return status
