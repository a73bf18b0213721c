"""How a rank sends an uncaught exception to the launcher.

Each rank has a pipe of its own to the launcher. A Python rank whose program ends with an exception writes one message
into it, from `sys.excepthook`; so does one that ends with `sys.exit("message")`. Other calls of that hook print, as
usual (`shmcoll/runtime/uncaught.py`). A rank whose program cannot be executed writes one message, too. Nothing else is
ever written, and the descriptor is closed on exec. The launcher reads whenever there is something to read and once more
when the rank has ended. It never waits for the end of the file: a process that the rank has forked may hold the pipe
open. The rank never waits forever, either: a message is shorter than a pipe's buffer. The launcher empties even a
smaller buffer, and its death would end the rank.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import TracebackType

from shmcoll.engine.system.descriptors import file_of
from shmcoll.engine.system.text import to_bytes
from shmcoll.runtime import uncaught
from shmcoll.startup.exits import RaisedException

_LONGEST = 30_000  # characters, at most two thirds of a pipe's 64 KiB as ASCII


@dataclass(frozen=True)
class Report(RaisedException):
    """The report of a rank. text: the exception with its traceback. is_interrupt, is_broken_pipe: it is a
    `KeyboardInterrupt`, or a `BrokenPipeError`."""

    text: str
    is_interrupt: bool = False
    is_broken_pipe: bool = False


def install(fd: int) -> Callable[[BaseException], bool]:
    """Have an exception that ends this process reported to `fd` and not printed. A later hook wins. Returns a function
    that reports an exception, and returns whether it could."""
    os.set_inheritable(fd, False)
    me, pipe = os.getpid(), file_of(fd)

    def report(error: BaseException) -> bool:
        # A fork of the rank is not the rank; and the program may have closed a descriptor that it did not know.
        if uncaught.is_last(error) and os.getpid() == me and file_of(fd) == pipe:
            with contextlib.suppress(OSError):
                send(fd, _describe(error))
                return True
        return False

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not report(error):
            sys.__excepthook__(kind, error, trace)

    sys.excepthook = hook
    return report


def send(fd: int, report: Report) -> None:
    """Write the one message of this rank. Raises `OSError` if no process can read it."""
    message = to_bytes(json.dumps(asdict(report)))
    while message:
        message = message[os.write(fd, message) :]


def parse(message: bytes) -> Report | None:
    """Return the report, or None if the rank sent none or died while writing it."""
    try:
        return Report(**json.loads(message))
    except (ValueError, TypeError):
        return None


def _describe(error: BaseException) -> Report:
    import traceback

    now = time.monotonic_ns()
    is_message = isinstance(error, SystemExit)  # of sys.exit("message")
    text = str(error) if is_message else "".join(traceback.format_exception(error))
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 3]}\n  [{len(text) - _LONGEST} characters left out]\n{text[-_LONGEST * 2 // 3 :]}"
    kinds = [isinstance(error, kind) for kind in (KeyboardInterrupt, BrokenPipeError)]
    return Report(uncaught.in_one_line(error), now, uncaught.is_consequence(error), text, *kinds)
