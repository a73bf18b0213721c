"""One call at a time: calls from several threads take turns, and a call within a call of its own thread is refused."""

import threading
from contextlib import AbstractContextManager

from shmcoll.errors import CallNotAllowed


class Turns:
    """The turns of calls. of: the name of the function, for messages.

    The lock itself knows the thread that holds it, and `with` takes and releases it in one step. So an exception of a
    signal handler, at any instant, leaves nothing to be undone.
    """

    def __init__(self, of: str):
        self._of = of
        self._lock = threading.RLock()

    def turn(self) -> AbstractContextManager[bool]:
        """Return the turn, for use in a `with` statement, which waits for it."""
        if self.is_inside():
            raise CallNotAllowed(
                f"{self._of} was called during another {self._of} of this thread, as by a signal handler, or by an "
                f"iterable of map"
            )
        return self._lock

    def is_inside(self) -> bool:
        """Return whether this thread is in a call."""
        return self._lock._is_owned()  # type: ignore[attr-defined]
