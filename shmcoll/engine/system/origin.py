"""Where an exception comes from: the code that was called, or the user's.

A signal handler runs between any two instructions of the main thread. What it raises comes out of whatever it has
interrupted, so `except OSError` around a system call catches the handler's TimeoutError, too. Its frame is in the
traceback, as those of a user's methods are (`__reduce__`), and those of C functions are not.
"""

import contextlib
import sys
from types import TracebackType

_OURS = {*sys.stdlib_module_names, "cloudpickle", "numpy", "shmcoll", "shmrun"}


def is_ours(error: BaseException) -> bool:
    """Return whether only Python itself and shmcoll were at work when an exception was raised, below the function that
    has caught it."""
    trace = error.__traceback__ and error.__traceback__.tb_next
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] not in _OURS:
            return False
        trace = trace.tb_next
    return True


class ignored(contextlib.suppress):  # as contextlib.suppress
    """Ignore exceptions of these classes, but none of a signal handler."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return bool(super().__exit__(kind, error, trace)) and error is not None and is_ours(error)
