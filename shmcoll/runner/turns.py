"""One call at a time: calls from several threads take turns, and a call within a call of its own thread is refused."""

import contextlib
import threading
from collections.abc import Iterator

from shmcoll.errors import CallNotAllowed


class Turns:
    """`of`: what is called, for messages."""

    def __init__(self, of: str):
        self._of = of
        self._lock = threading.Lock()
        self._inside: int | None = None  # the thread that holds the lock

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        if self.is_inside():
            raise CallNotAllowed(
                f"{self._of} was called during another {self._of} of this thread, as by a signal handler"
            )
        with self._lock:
            self._inside = threading.get_ident()
            try:
                yield
            finally:
                self._inside = None

    @contextlib.contextmanager
    def turn_within(self, seconds: float) -> Iterator[bool]:
        """Wait so long for a turn, not at all within a call of this thread; whether it has come."""
        got = not self.is_inside() and self._lock.acquire(timeout=seconds)
        try:
            yield got
        finally:
            if got:
                self._lock.release()

    def is_inside(self) -> bool:
        """Return whether this thread is in a call."""
        return self._inside == threading.get_ident()
