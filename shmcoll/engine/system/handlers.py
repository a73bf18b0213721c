"""Exceptions that a signal handler has raised, told from those of the code that it has interrupted.

A handler runs between any two instructions of the main thread. An exception that it raises comes out of whatever runs
there, and is meant for the program. `except OSError` around a system call catches a handler's TimeoutError, too, and
`except Exception` around a user's method catches all of them.

A handler runs late if its signal comes just before the main thread sleeps in the kernel, or if another thread takes the
signal: neither wakes the main thread. So a sleep without another end lasts `LONGEST_SLEEP`, and is repeated.
"""

import contextlib
from types import FrameType, TracebackType

LONGEST_SLEEP = 0.5  # seconds

_VARARGS = 0x04  # inspect.CO_VARARGS, without the time to import `inspect`


def is_of_handler(error: BaseException) -> bool:
    """Return whether a signal handler that is written in Python has raised an exception."""
    trace = error.__traceback__
    while trace is not None:
        if _is_handler(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _is_handler(frame: FrameType) -> bool:
    """Return whether a function was called with the frame of its caller, as only a handler is."""
    code = frame.f_code
    names = code.co_varnames
    given = [frame.f_locals.get(name) for name in names[: code.co_argcount]]
    if code.co_flags & _VARARGS:
        given += frame.f_locals.get(names[code.co_argcount + code.co_kwonlyargcount]) or ()
    return frame.f_back is not None and any(one is frame.f_back for one in given)


def reraise_of_handler(error: BaseException) -> None:
    """Raise the exception again if a signal handler has raised it: it is not about what has been called."""
    if is_of_handler(error):
        raise error


class ignored(contextlib.suppress):  # as contextlib.suppress
    """Ignore exceptions of these classes, but none of a signal handler."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return bool(super().__exit__(kind, error, trace)) and error is not None and not is_of_handler(error)
