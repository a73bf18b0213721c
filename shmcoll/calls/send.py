"""send: its arguments, its call, and what it asks for: memory, or something to read meanwhile."""

import time
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
    sending = Sending(caller, array, dest, tag)
    caller.complete("send", sending.put_beside_receives)
    sending.raise_refusal()


def check_arguments(caller: Caller, x: Any, dest: Any, tag: Any) -> tuple[np.ndarray, int, int]:
    with caller.checking("send") as check:
        array = exact(given.as_array(x, *check))
        return array, given.as_peer(dest, "dest", caller.size, *check), given.as_tag(tag, "tag", *check)


class Sending:
    """A message that takes more than one call of the native entry. `form`: see `collectives/send.py`."""

    def __init__(self, caller: Caller, array: Any, dest: int, tag: int, form: int = ARRAY):
        self._caller = caller
        self._entry = caller.routine("send")
        self._message = array, dest, tag, form
        self._refusal: ArenaError | None = None

    def put_beside_receives(self) -> int:
        """`put`, and posted receives meanwhile. These are the worker's, who alone calls while there are any."""
        caller = self._caller
        if caller.receives.is_empty() or not caller.worker.is_me():
            return self.put()
        status = self.put(companion=caller.receives, patience=HEAP_PATIENCE)
        caller.receives.detach()
        return status

    def put(self, status: int = c.BUSY, companion: Companion | None = None, patience: float = 0) -> int:
        """Call the native entry, again with memory as often as it asks for some; its last status. `status`: what it has
        answered already. OK: the message has been sent, or `raise_refusal` says why not; what is attached to the
        `companion` may have been read in part. `patience`: for so many seconds go without memory, when there is none.
        """
        caller, dest = self._caller, self._message[1]
        place, memory = None, 0
        deadline = time.monotonic() + patience
        caller.mail.expect(AT_ONCE if companion else 0)
        try:
            if status == c.BUSY:
                status = self._call(place, memory)
            while status == c.HALFWAY and (asked := caller.words.item(c.DETAIL // WORD)) != FINISHED:
                if asked == 0:
                    caller.mail.sweep(dest)
                    memory = 0
                elif asked == BLOCKED:
                    place = companion.attach() if companion else None  # what was attached before has been read
                    memory = GO_ON
                else:
                    try:
                        memory = caller.mail.new_ring(dest)
                    except ArenaError as error:
                        if companion and time.monotonic() < deadline:
                            # Nothing else than is attached: to read that to its end would keep what is sent waiting
                            place = companion.attach() if place is None else place
                            memory = GO_ON
                        elif memory == STAY:
                            self._refuse(error)
                            memory = NONE
                        else:
                            memory = STAY
                status = self._call(place, memory)
        except BaseException:  # a signal handler: the message is not complete
            caller.words[c.ACTIVE // WORD] = c.ENDED
            raise
        return c.OK if status == c.HALFWAY else status

    def raise_refusal(self) -> None:
        """Raise the `ArenaError` for which the message has not been sent, if there is one."""
        if self._refusal:
            raise self._refusal

    def _call(self, place: np.ndarray | None, memory: int) -> int:
        array, dest, tag, form = self._message
        return self._entry(array, place, memory, dest, tag, form)

    def _refuse(self, error: ArenaError) -> None:
        name = "send" if self._message[3] == ARRAY else "send_object"
        told = f"{name} on rank {self._caller.verdicts.name}: {error}. The message has not been sent"
        self._refusal = ArenaError(told)
