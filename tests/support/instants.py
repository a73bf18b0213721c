"""SIGINT before the k-th bytecode of a piece of code: exact instants, the same in every run.

`sys.settrace` sees each bytecode before it runs. Only frames of files that are asked for count, so that the rest of the
work runs at its usual speed.
"""

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def interrupted_at(k: int, work: Callable[[], Any], counts: Callable[[str], bool]) -> int:
    """Run `work` and raise SIGINT before its k-th bytecode in files that count; the number of such bytecodes.

    What the signal's handler raises comes out of here. No signal is raised for k = 0.
    """
    number = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal number
        if event == "call":
            if not counts(frame.f_code.co_filename):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            number += 1
            if number == k:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return number
