"""Running a piece of work without a signal handler in the middle of it.

A Python signal handler runs in the main thread, between any two bytecodes, and may raise there: KeyboardInterrupt does.
Most libraries do not expect that. llvmlite keeps its lock, or loses track of the owner of native memory, and the
process crashes later. A module that is half imported fails at every later import.

Blocking signals in the main thread does not help. The kernel then gives the signal to another thread, where CPython's C
handler only sets a flag, and the Python handler still runs in the main thread. So the Python handlers are exchanged for
a `_Deferred` each, which notes the signal. The handlers run at the end of the work.

All of the following happens in the main thread, and no handler is lost:

* A `_Deferred` holds from its creation on. It stops in one assignment, and what has arrived by then runs after that. A
  `_Deferred` that does not hold calls its handler at once.
* The old handler is put back after that assignment. If a handler raises just then, the `_Deferred` stays in place and
  does the same as the handler that it replaces.
* A signal that arrives before its handler has been exchanged runs that handler. If it raises, the work does not begin,
  and the handlers that have been exchanged by then are put back.
"""

import ctypes
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]

_LIBC = ctypes.CDLL(None)
_LONGEST_ACTION = 256  # bytes; more than a struct sigaction has


class _Deferred:
    """Replaces the Python handler of a signal, and notes the signal while it is `holding`."""

    def __init__(self, number: int, handler: Handler) -> None:
        self.number = number
        self.handler = handler
        self.holding = True
        self.arrived = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.holding:
            self.arrived = True
        else:
            self.handler(number, frame)

    def release(self) -> None:
        """Put the handler back, and run it if its signal has arrived."""
        self.holding = False
        try:
            in_place = signal.getsignal(self.number) is self  # the work may have set another one
            if in_place:
                _exchange(self.number, self.handler)
        finally:
            if self.arrived:
                self.handler(self.number, sys._getframe())


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Run the body without Python signal handlers. The handlers of signals that arrive meanwhile run when it has ended.

    A handler runs once, however often its signal has arrived. Its exception is raised at the end of the body. Threads
    other than the main one run no signal handlers, so nothing is done for them.
    """
    with ExitStack() as stack:  # it releases all of them, even if handlers raise
        for number in range(1, signal.NSIG):
            handler = signal.getsignal(number)
            if callable(handler):
                deferred = _Deferred(number, handler)
                stack.callback(deferred.release)
                try:
                    _exchange(number, deferred)
                except ValueError:  # this is not the main thread
                    break
        yield


def _exchange(number: int, handler: Handler) -> None:
    """Set the Python handler of a signal and nothing else.

    What the kernel calls stays the same: C code may have put its own function in front of Python's, and programs choose
    whether system calls are restarted (`signal.siginterrupt`).
    """
    action = ctypes.create_string_buffer(_LONGEST_ACTION)
    _LIBC.sigaction(number, None, action)
    signal.signal(number, handler)
    _LIBC.sigaction(number, action, None)
