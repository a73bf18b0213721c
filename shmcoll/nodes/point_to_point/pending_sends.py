"""Keeps MPI moving while messages to other nodes are on their way, because it moves a long one only while the sender is
inside MPI: in a thread that runs as long as there are any.

Why nobody waits forever: nobody waits for this thread, except `finish`, which has a limit.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shmcoll.engine.system import log
from shmcoll.nodes.mpi import waiting
from shmcoll.runtime import helpers

if TYPE_CHECKING:
    from shmcoll.nodes.mpi.wire import Wire


class PendingSends:
    """The sends of a group that have not left. lock: of its messages; it is held when `add` is called. native: what
    keeps native code out of them. name: of the rank."""

    def __init__(
        self, wire: "Wire", lock: AbstractContextManager[Any], native: AbstractContextManager[None], name: Any
    ):
        self._wire, self._name = wire, name
        self._lock, self._native = lock, native
        self._sends: deque[_Send] = deque()
        self._is_running = False
        self._pid = os.getpid()

    def add(self, requests: list[Any], memory: Any = None, address: int = 0) -> None:
        """Keep a send, with its memory, until it has left. address: of its bytes, if they are in an array that a call
        keeps."""
        self.drop()
        for _ in range(waiting.SEND_TESTS):
            if self._wire.tests(requests):
                return
        self._sends.append(_Send(requests, memory, address))
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=self._run, name="shmcoll-sends", daemon=True).start()

    def sends_from(self, address: int) -> bool:
        """Return whether bytes are on their way that are in the array of a call, at this address."""
        with self._lock, self._native:
            for send in [send for send in self._sends if send.address == address]:
                if not self._has_left(send):
                    return True
                self._sends.remove(send)
            return False

    @property
    def sends_arrays(self) -> bool:
        """Whether bytes are on their way that are in the array of any call."""
        return any(send.address for send in self._sends)

    def abandoned(self) -> list[tuple[list[Any], Any]]:
        """Return the requests of all sends that have not left, and their memory, and forget them."""
        sends, self._sends = self._sends, deque()
        return [(send.requests, send.memory) for send in sends]

    def finish(self, drain: Callable[[], None], seconds: float = 10.0) -> None:
        """Wait until all sends have left, up to a limit. drain: takes in what has come, which could be in the way."""
        end = time.monotonic() + seconds
        while self._sends and os.getpid() == self._pid:
            with self._lock, self._native:
                self.drop()
            drain()
            if time.monotonic() > end:
                log.warning(f"rank {self._name} ends, and {len(self._sends)} of its messages have not been received")
                return
            time.sleep(waiting.NAP)

    @helpers.counted()
    def _run(self) -> None:
        while True:
            with self._lock, self._native:
                self.drop()
                if not self._sends:
                    self._is_running = False
                    return
            time.sleep(waiting.SLICE)

    def drop(self) -> None:
        """Forget what has left, of the next few sends. Called with the lock, and with native code out."""
        if self._wire.mpi.Is_finalized():
            return
        for _ in range(min(len(self._sends), waiting.SENDS_TESTED)):
            send = self._sends.popleft()
            if not self._has_left(send):
                self._sends.append(send)

    def _has_left(self, send: "_Send") -> bool:
        """Return whether MPI needs the memory of a send no more. After an error it does not: the receiver has died."""
        try:
            return self._wire.tests(send.requests)
        except self._wire.mpi.Exception:
            return True


@dataclass(eq=False)
class _Send:
    requests: list[Any]
    memory: Any
    address: int
