"""The call in a rank: load the function, call it, answer, end.

A forked rank comes here from the server. One with an interpreter of its own (`method="spawn"`) is started as
`python -m shmcoll.runner.run_call CALL ANSWERS EVENTS RANK`, the first three being descriptors.
"""

import atexit
import contextlib
import importlib
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import ModuleType
from typing import Any, BinaryIO, NoReturn, TextIO

from shmcoll.engine.system.descriptors import File, file_of
from shmcoll.runner import protocol
from shmcoll.runner.protocol import Answered, Part, Setting, Told
from shmcoll.runtime import uncaught
from shmcoll.startup import rank_process
from shmcoll.startup.exits import RaisedException

_LONGEST_LINE = 500  # characters; an Answered has to fit a message


def perform(call: int, answers: int, events: socket.socket, rank: int) -> NoReturn:
    """Be the rank: call the function, answer, and end the process as the interpreter would.

    Exit codes: 0 with a result, 1 with an exception; what the function itself asked for with `SystemExit`.
    """
    me, code = os.getpid(), 1
    answer = _Answer(answers, events, rank)
    try:
        with protocol.reopen(call, "rb") as sent:
            setting: Setting = pickle.load(sent)
            answer.span = setting.span
            try:
                value = _call(setting, sent, call)
                _only(me)
                _finish_work()
                with answer.opened() as part:
                    _write_result(part, rank, value)
                    code = _tell(events, Answered(rank, None))
            except SystemExit as e:
                code = _exit_code(e)
            except Unreachable:
                raise
            except BaseException as e:
                if os.getpid() != me:
                    traceback.print_exc()
                _only(me)
                _raised(answer, events, rank, e)
        threading._shutdown()  # type: ignore[attr-defined]  # joins threads, as the interpreter does at its end
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        code = code or _lost_code()
    except KeyboardInterrupt:  # told to stop
        code = code or 1
    except BaseException:
        traceback.print_exc()
        code = code or 1
    finally:
        os._exit(code)


class Unreachable(Exception):
    """The program has closed what the rank answers through."""


class _Answer:
    """Where a rank answers: a file and a socket, which the program may close, and open files of its own instead."""

    def __init__(self, answers: int, events: socket.socket, rank: int):
        self._numbers = answers, events.fileno()
        self._files = self._meant()
        self._rank = rank
        self.span = 0  # bytes that the answer may take, once the setting has been read

    def _meant(self) -> list[File | None]:
        return [file_of(number) for number in self._numbers]

    @contextlib.contextmanager
    def opened(self) -> Iterator[Part]:
        if self._meant() != self._files:
            raise Unreachable(
                f"rank {self._rank} of shmcoll.run cannot answer: its program has closed descriptors that it had not "
                f"opened, {self._numbers[0]} or {self._numbers[1]}; let it close its own only"
            )
        with protocol.reopen(self._numbers[0], "r+b") as file:
            yield protocol.answer(file, self._rank, self.span)


def _call(setting: Setting, sent: BinaryIO, call: int) -> Any:
    with sent:
        _look_fresh(setting)
        try:
            function, arguments = pickle.load(sent)
        except Exception as e:
            e.add_note("while loading the function and its arguments: what they need must be importable in a rank")
            raise
    os.close(call)
    return function(*arguments)


def _finish_work() -> None:
    """Complete asynchronous calls, as at the end of the interpreter. Raises the first failure that nobody has seen."""
    if "shmcoll.runtime.async_worker" in sys.modules:
        sys.modules["shmcoll.runtime.async_worker"].finish_all()
        lost = sys.modules["shmcoll.runtime.lost_failures"]
        lost.tell_all()
        if error := lost.first():
            error.add_note("in an asynchronous call that nobody waited for")
            raise error


def _lost_code() -> int:
    """1 if an asynchronous call has failed that nobody waited for, else 0."""
    return (
        1
        if "shmcoll.runtime.lost_failures" in sys.modules and sys.modules["shmcoll.runtime.lost_failures"].first()
        else 0
    )


def _look_fresh(setting: Setting) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Pipes to the caller, who reads lines. Made anew: the server's own are for what the descriptors were there
    sys.stdout, sys.stderr = _line_writer(1), _line_writer(2)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc, assignment]
    if setting.folder is not None:
        os.chdir(setting.folder)
    rank_process.restore_environment(setting.environment)
    sys.path[:] = setting.path
    sys.argv[:] = setting.argv
    sys.modules["__main__"] = ModuleType("__main__")
    importlib.invalidate_caches()


def _line_writer(fd: int) -> TextIO:
    return open(fd, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)


def _write_result(answer: Part, rank: int, value: Any) -> None:
    import cloudpickle  # type: ignore[import-untyped]

    try:
        cloudpickle.dump(value, answer, protocol=5)
        answer.file.flush()
    except Exception as e:
        answer.rewind()
        if isinstance(e, (MemoryError, OSError)):
            raise
        raise TypeError(
            f"the result of rank {rank}, a {_name(type(value))}, cannot be pickled: {type(e).__name__}: {e}"
        ) from e


def _raised(answer: _Answer, events: socket.socket, rank: int, error: BaseException) -> None:
    """Tell the peers, then answer, then tell the server."""
    now, trace = time.monotonic_ns(), error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    uncaught.ends_by(error)
    line = uncaught.in_one_line(error)[:_LONGEST_LINE]
    pickled, why = _pickled(error)
    with answer.opened() as part:
        pickle.dump(Told(line, "".join(traceback.format_exception(error)), pickled, why), part)
        part.file.flush()
        _tell(events, Answered(rank, RaisedException(line, now, uncaught.is_consequence(error))))


def _pickled(error: BaseException) -> tuple[bytes | None, str]:
    """The exception as bytes that are known to be readable, or None and why there are none."""
    import cloudpickle

    try:
        data = cloudpickle.dumps(error, protocol=5)
    except Exception as e:
        return None, f"pickled: {type(e).__name__}: {e}"
    try:
        if isinstance(pickle.loads(data), BaseException):
            return data, ""
        return None, "unpickled: it becomes something else"
    except Exception as e:  # such as a class that wants other arguments than it keeps
        return None, f"unpickled: {type(e).__name__}: {e}"


def _name(kind: type) -> str:
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _exit_code(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _tell(events: socket.socket, answered: Answered) -> int:
    events.send(pickle.dumps(answered))
    return 0


def _only(me: int) -> None:
    """A fork of the rank that returns from the function is not the rank, and has nothing to answer."""
    if os.getpid() != me:
        os._exit(0)


# --- a rank with an interpreter of its own ----------------------------------------------------------------------------


def command(call: int, answers: int, events: int, rank: int) -> list[str]:
    """The command line of a fresh rank, under the server's own interpreter options."""
    return [*rank_process.interpreter(), "-m", "shmcoll.runner.run_call", *map(str, (call, answers, events, rank))]


def main() -> NoReturn:
    call, answers, events, rank = map(int, sys.argv[1:])
    for fd in (call, answers, events):
        os.set_inheritable(fd, False)
    perform(call, answers, socket.socket(fileno=events), rank)


if __name__ == "__main__":
    main()
