"""Keeps MPI moving while messages to other nodes are on their way, because it moves a long one only while the sender is
inside MPI: in a thread that runs as long as there are any.

Why nobody waits forever: nobody waits for this thread, except `finish`, which has a limit.
"""

import os
import sys
import threading
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shmcoll.nodes.wire import Wire

_TESTS = 100  # of a send before a thread is started for it, which takes longer
_SLICE = 500e-6  # seconds between two tests in the thread
_NAP = 100e-6  # seconds between two tests in `finish`


class Sender:
    """The sends of a group that have not left. lock: of its messages; it is held when `add` is called. native: what
    keeps native code out of them. name: of the rank."""

    def __init__(
        self, wire: "Wire", lock: AbstractContextManager[Any], native: AbstractContextManager[None], name: Any
    ):
        self._wire, self._name = wire, name
        self._lock, self._native = lock, native
        self._sends: list[tuple[list[Any], Any]] = []  # the requests of each, and their memory
        self._is_running = False
        self._pid = os.getpid()

    def add(self, requests: list[Any], memory: Any = None) -> None:
        """Keep a send, with its memory, until it has left."""
        self._drop()
        for _ in range(_TESTS):
            if self._wire.tests(requests):
                return
        self._sends.append((requests, memory))
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=self._run, name="shmcoll-sends", daemon=True).start()

    def finish(self, seconds: float = 10.0) -> None:
        """Wait until all sends have left, up to a limit."""
        end = time.monotonic() + seconds
        while self._sends and os.getpid() == self._pid:
            with self._lock, self._native:
                self._drop()
            if time.monotonic() > end:
                text = f"rank {self._name} ends, and {len(self._sends)} of its messages have not been received"
                print(f"shmcoll: {text}", file=sys.stderr)
                return
            time.sleep(_NAP)

    def _run(self) -> None:
        while True:
            with self._lock, self._native:
                self._drop()
                if not self._sends:
                    self._is_running = False
                    return
            time.sleep(_SLICE)

    def _drop(self) -> None:
        if self._sends and not self._wire.mpi.Is_finalized():
            self._sends = [one for one in self._sends if not self._wire.tests(one[0])]
