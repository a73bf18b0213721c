"""One call at a time: calls from several threads take turns, and a call within a call of its own thread is refused."""

import contextlib
import threading
from collections.abc import Iterator

from shmcoll.errors import CallNotAllowed


class Turns:
    """The turns of calls. of: the name of the function, for messages."""

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
        """Wait for a turn for at most `seconds`, but not within a call of this thread. Returns whether the turn
        has come."""
        got = not self.is_inside() and self._lock.acquire(timeout=seconds)
        try:
            yield got
        finally:
            if got:
                self._lock.release()

    def is_inside(self) -> bool:
        """Return whether this thread is in a call."""
        return self._inside == threading.get_ident()
