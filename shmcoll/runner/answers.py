"""How a rank answers: with a result or an exception in its part of the answers, and an `Answered` to the server."""

import contextlib
import os
import pickle
import socket
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from shmcoll.engine.system.descriptors import File, file_of
from shmcoll.engine.system.handlers import is_of_handler
from shmcoll.engine.system.tracebacks import forget, shorten
from shmcoll.runner import protocol
from shmcoll.runner.protocol import Answered, Part, Told
from shmcoll.runtime import uncaught, user_code
from shmcoll.startup.exits import RaisedException

_LONGEST_LINE = 500  # characters; an `Answered` has to fit into a message
_OURS = (str(Path(__file__).parent) + os.sep, user_code.__file__)


class Unreachable(Exception):
    """The program has closed the file or the socket for the answer."""


class Answer:
    """The way of a rank's answer: a file and a socket. The program may close them, and other files may get their
    numbers."""

    def __init__(self, answers: int, events: socket.socket, rank: int, of: str):
        self._numbers = answers, events.fileno()
        self._files = self._meant()
        self._events = events
        self._rank, self._pid = rank, os.getpid()
        self._of = of
        self.span = 0  # bytes that the answer may take, once the setting has been read
        self.loaded = False  # whether the call has been unpickled

    def result(self, value: Any) -> None:
        """Answer with a result. Raises `TypeError` if it cannot be pickled."""
        with self._opened() as part:
            _write_result(part, self._rank, value)
            self._tell(None)

    def exception(self, error: BaseException, *, ends: bool) -> None:
        """Record for the peers that an exception ends this rank, if it does. Then answer, then notify the server."""
        now = time.monotonic_ns()
        answer = told(error, ends=ends)
        with self._opened() as part:
            pickle.dump(answer, part)
            part.file.flush()
            self._tell(RaisedException(answer.line, now, uncaught.is_consequence(error)))

    def check(self) -> None:
        """Raise `Unreachable` if the rank cannot answer any more, or this process is a fork of it."""
        if os.getpid() != self._pid:
            raise Unreachable(f"process {os.getpid()} is a fork of rank {self._rank} of {self._of}, and cannot answer")
        if self._meant() != self._files:
            raise Unreachable(
                f"rank {self._rank} of {self._of} cannot answer: its program has closed descriptors that it had not "
                f"opened, {self._numbers[0]} or {self._numbers[1]}; let it close its own only"
            )

    def _tell(self, raised: RaisedException | None) -> None:
        self._events.send(pickle.dumps(Answered(self._rank, raised, self.loaded)))

    def _meant(self) -> list[File | None]:
        return [file_of(number) for number in self._numbers]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Part]:
        self.check()
        with protocol.reopen(self._numbers[0], "r+b") as file:
            yield protocol.answer(file, self._rank, self.span)


def told(error: BaseException, *, ends: bool = False) -> Told:
    """Return an exception as it is sent to the caller. ends: whether it ends this rank, which is recorded for the
    peers."""
    error.with_traceback(_below_us(error.__traceback__))
    with contextlib.suppress(Exception):  # its class may forbid new attributes
        shorten(error)
    if ends:
        uncaught.ends_by(error)
    else:
        uncaught.explain(error)
    forget(error)
    pickled, why = _pickled(error)
    text = "".join(traceback.format_exception(error))
    return Told(uncaught.in_one_line(error)[:_LONGEST_LINE], text, pickled, why)


def _below_us(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without its outermost frames, which are ours."""
    while trace and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _write_result(answer: Part, rank: int, value: Any) -> None:
    from shmcoll.runner import unsendable
    from shmcoll.runner.pickling import Unsendable, dump_result

    try:
        dump_result(value, answer)
        answer.file.flush()
    except Exception as e:
        answer.rewind()
        if isinstance(e, (MemoryError, OSError)) or is_of_handler(e):
            raise
        why = str(e) if isinstance(e, Unsendable) else f"{type(e).__name__}: {e}"
        instead = unsendable.instead(value)
        raise TypeError(
            f"the result of rank {rank}, a {type_name(type(value))}, cannot be pickled: {why}{instead}"
        ) from e


def _pickled(error: BaseException) -> tuple[bytes | None, str]:
    """Return the exception as bytes that have been read back without error, or None and the reason."""
    import cloudpickle  # type: ignore[import-untyped]

    try:
        data = cloudpickle.dumps(error, protocol=5)
    except Exception as e:
        return None, f"pickled: {type(e).__name__}: {e}"
    try:
        if isinstance(pickle.loads(data), BaseException):
            return data, ""
        return None, "unpickled: it becomes something else"
    except Exception as e:  # such as a class whose arguments differ from the `args` that it keeps
        return None, f"unpickled: {type(e).__name__}: {e}; give its class a __reduce__"


def type_name(kind: type) -> str:
    """Return the name of a class as the user writes it."""
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
