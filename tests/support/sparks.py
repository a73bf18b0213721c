"""A signal before any instruction of some functions, delivered as the kernel would.

CPython runs a signal handler where a call returns, where a loop jumps back, and where a function begins. An exception
that a trace function raises can come elsewhere. So the trace function here is not Python: it is libc's `pthread_kill`,
and the handler runs where the interpreter looks for signals next.
"""

import ctypes
import functools
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.support.waiting import until

SIGNAL = signal.SIGUSR2

_kill = ctypes.PyDLL(None).pthread_kill
_kill.argtypes = ctypes.c_ulong, ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.py_object
_kill.restype = None


def run(
    call: Callable[[], Any],
    step: int,
    files: tuple[Path, ...],
    handler: Callable[[], None],
    again: tuple[int, ...] = (),
) -> bool:
    """Make the call. Before instruction `step` of it in these files a signal comes, whose handler calls `handler`, and
    then others: after each number of instructions in `again`. Returns whether the first one came; what the call raises
    is raised."""
    names = {str(file) for file in files}
    fire = functools.partial(_kill, threading.get_ident(), SIGNAL)
    count, steps, came, is_over = 0, [step, *again], False, False

    def begin(frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in names:
            return None
        frame.f_trace_opcodes = True
        return look

    def look(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        if not steps or count < steps[0]:
            return look
        below: FrameType | None = frame
        while below is not None:  # in a trace function written in Python the handler would run at its beginning
            if below.f_trace is not None:
                below.f_trace = fire
            below = below.f_back
        return fire

    def handle(_: int, frame: FrameType | None) -> None:
        nonlocal count, came
        sys.settrace(None)
        if is_over:
            return
        came = True
        del steps[:1]
        if steps:
            count = 0
            while frame is not None:
                if frame.f_trace is not None:
                    frame.f_trace = look
                frame = frame.f_back
            sys.settrace(begin)
        handler()

    before = signal.signal(SIGNAL, handle)
    sys.settrace(begin)
    try:
        call()
    finally:
        is_over = True
        sys.settrace(None)
        signal.signal(SIGNAL, before)
    return came


def wait_until_in_line(group: Any) -> None:
    """Wait until another thread is in the line of the group, behind this one."""
    me = threading.get_ident()
    until(lambda: any(place.thread not in (0, me) for place in list(group._dispatcher.worker.turns._queue)))
