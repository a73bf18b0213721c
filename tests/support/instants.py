"""SIGINT before the k-th bytecode of a piece of code: exact instants, the same in every run.

`sys.settrace` sees each bytecode before it runs. Only frames of files that are asked for count, so that the rest of the
work runs at its usual speed.
"""

import opcode
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def interrupted_at(k: int, work: Callable[[], Any], counts: Callable[[str], bool]) -> int:
    """Run `work` and raise SIGINT before its k-th bytecode in files that count; the number of such bytecodes.

    What the signal's handler raises comes out of here. No signal is raised for k = 0.
    """
    return _Trace(k, counts, signal.SIGINT, any_bytecode=True).run(work)


def interrupted_where_signals_are_handled(
    k: int, work: Callable[[], Any], counts: Callable[[str], bool], *, number: int = signal.SIGINT
) -> int:
    """Do the same with any signal, at the bytecodes at which CPython handles signals: where a function begins, and
    behind a call of a function that is not written in Python. So a lock that `with` has taken is not kept."""
    return _Trace(k, counts, number, any_bytecode=False).run(work)


class _Trace:
    def __init__(self, k: int, counts: Callable[[str], bool], number: int, *, any_bytecode: bool):
        self._k, self._counts, self._signal, self._any = k, counts, number, any_bytecode
        self._seen = 0
        self._last: tuple[FrameType, str] | None = None  # the frame and the bytecode that ran last

    def run(self, work: Callable[[], Any]) -> int:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            work()
        finally:
            sys.settrace(before)
        return self._seen

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            self._last = None
            if not self._counts(frame.f_code.co_filename):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            if not self._any:
                self._count()
        elif event == "opcode":
            if self._any or (self._last and self._last[0] is frame and self._last[1].startswith("CALL")):
                self._count()
            self._last = frame, opcode.opname[frame.f_code.co_code[frame.f_lasti]]
        return self._trace

    def _count(self) -> None:
        self._seen += 1
        if self._seen == self._k:
            self._last = None
            sys.settrace(None)
            signal.raise_signal(self._signal)
