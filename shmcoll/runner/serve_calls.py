"""The calls in a rank: take one, perform it, answer. `protocol.py` describes the way of a call.

A forked rank comes here from the server. A rank with an interpreter of its own (`method="spawn"`) is started as `python
-m shmcoll.runner.serve_calls RANK EVENTS CONTROL FILES...`. All of these except RANK are descriptors; CONTROL is -1 in
a rank that has one call.

A rank that stays ignores SIGINT between calls. Each of its calls has its own stdout and stderr. The output of threads
between calls is kept, and printed at the beginning of the next call (`kept_output.py`). A call is answered when its
asynchronous calls have ended, which other ranks may need. Posted receives stay posted.
"""

import contextlib
import importlib
import io
import os
import pickle
import signal
import socket
import sys
import traceback
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, BinaryIO, NoReturn, TextIO

from shmcoll.diagnostics import stack_server
from shmcoll.engine.system import interpreter
from shmcoll.engine.system.descriptors import File, file_of
from shmcoll.engine.system.text import line_writer
from shmcoll.runner import passing, pickling, protocol, shared_memory
from shmcoll.runner.answers import Answer, Unreachable
from shmcoll.runner.kept_output import KeptOutput
from shmcoll.runner.protocol import Setting
from shmcoll.runtime import user_code
from shmcoll.startup import rank_process

CALL = b"call"  # the bytes that come with the descriptors of a call
_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "line_buffering": True}
_raised: list[BaseException] = []  # failures of asynchronous calls that a call has raised


def serve(number: int, events: socket.socket, control: socket.socket | None, files: list[int]) -> NoReturn:
    """Perform the calls of this rank, and end the process as the interpreter would.

    The exit code is 0, or 1 after an exception that ends the rank, or that of a `SystemExit` that a function raises.

    Args:
        number: the rank.
        events: the socket for answers to the server.
        control: the socket from which calls come; None if the rank has one call.
        files: the descriptors of that call; of a rank that stays, a file with the `Setting` of its start.
    """
    code = 0
    try:
        try:
            if control is None:
                code = 0 if _Call(_Place(number, events), files).perform() else 1
            else:
                _serve_all(_Place(number, events, stays=True), control, *files)
        except SystemExit as e:
            code = user_code.exit_code(e)
        code = user_code.end_as_interpreter(code)
    except KeyboardInterrupt:  # the server has stopped the call
        code = code or 1
    except BaseException:
        traceback.print_exc()
        code = code or 1
    finally:
        os._exit(code)


@dataclass(frozen=True)
class _Place:
    """The rank that this process is. output: what its stdout and stderr write to, if it stays."""

    number: int
    events: socket.socket
    stays: bool = False
    output: list[KeptOutput] = field(default_factory=list)

    def ignore_interrupts(self) -> None:
        """Ignore SIGINT from now on if this rank stays. Raises `KeyboardInterrupt` for one that has come before."""
        if self.stays:
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                raise


def _serve_all(place: _Place, control: socket.socket, setting: int) -> None:
    """Perform calls until the server closes its end of `control`."""
    sockets = control.fileno(), place.events.fileno()
    files = [*map(file_of, sockets)]
    place.output.extend(KeptOutput(fd) for fd in (1, 2))
    with protocol.reopen(setting, "rb") as sent:
        _look_fresh(pickle.load(sent), *(io.TextIOWrapper(io.BufferedWriter(one), **_TEXT) for one in place.output))
    place.ignore_interrupts()
    stack_server.offer()
    os.close(setting)
    while descriptors := _next_call(control):
        pipes = descriptors[2 : protocol.DESCRIPTORS]
        for standard, fd in enumerate(pipes, 1):
            rank_process.replace(fd, standard)
        for one in place.output:
            one.open()
        call = _Call(place, [fd for fd in descriptors if fd not in pipes])
        try:
            call.perform()
        finally:
            place.ignore_interrupts()
            call.close()
        if [*map(file_of, sockets)] != files:
            raise Unreachable(
                f"rank {place.number} of shmcoll.ranks: its program has closed a descriptor that it had not opened"
            )


def _next_call(control: socket.socket) -> list[int]:
    """Return the descriptors of the next call; an empty list if the server has closed its end."""
    data, descriptors, is_cut = passing.receive(control, 64)
    if data and is_cut:
        raise protocol.too_many_files()
    return descriptors if data else []


class _Call:
    """One call. files: its descriptors, without those of stdout and stderr.

    In a rank that stays, this process differs afterwards only in what the function itself has changed.
    """

    def __init__(self, place: _Place, files: list[int]):
        self._place = place
        self._call, self._answers, *self._shared = files
        of = "shmcoll.ranks" if place.stays else "shmcoll.run"
        self._answer = Answer(self._answers, place.events, place.number, of)
        self._file: File | None = file_of(self._answers)

    def perform(self) -> bool:
        """Call the function and answer. Returns whether it has a result. Raises `SystemExit` as the function does, and
        `Unreachable`."""
        try:
            with shared_memory.received(self._shared):
                value = user_code.call(self._value)
                self._silence()
                self._answer.result(value)
            return True
        except (SystemExit, Unreachable):
            raise
        except BaseException as e:
            self._place.ignore_interrupts()
            self._silence()
            self._answer.exception(e, ends=not self._place.stays)
            return False

    def close(self) -> None:
        if file_of(self._answers) == self._file:
            os.close(self._answers)

    def _value(self) -> Any:
        with protocol.reopen(self._call, "rb") as sent:
            os.close(self._call)
            setting: Setting = pickle.load(sent)
            self._answer.span = setting.span
            if self._place.stays:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            else:
                _look_fresh(setting, line_writer(1), line_writer(2))
                stack_server.offer()  # the function may never join the job
            function, args, kwargs = _load(sent)
        self._answer.loaded = True
        value = function(*args, **kwargs)
        complete_work(stays=self._place.stays)
        self._place.ignore_interrupts()
        return value

    def _silence(self) -> None:
        """Flush the output of the call of a rank that stays into its pipes before it is answered: the caller does not
        read them afterwards."""
        if not self._place.stays:
            return
        self._answer.check()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the program may have replaced or closed it
                stream.flush()
        for one in self._place.output:
            one.keep()
        null = os.open(os.devnull, os.O_WRONLY)
        for standard in (1, 2):
            os.dup2(null, standard)
        os.close(null)


def complete_work(*, stays: bool) -> None:
    """Complete asynchronous calls, but leave receives posted in a rank that stays. Raises once the first failure that
    the program has not seen."""
    if "shmcoll.runtime.async_worker" not in sys.modules:
        return
    worker, lost = sys.modules["shmcoll.runtime.async_worker"], sys.modules["shmcoll.runtime.lost_failures"]
    if stays:
        worker.await_calls()
    else:
        worker.finish_all()
        lost.tell_all()
    error = lost.first()
    if error and error not in _raised:
        _raised.append(error)
        error.add_note("in an asynchronous call that nobody waited for")
        raise error


def _load(sent: BinaryIO) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the function and its arguments, which follow the setting."""
    try:
        function, args, kwargs = pickle.load(sent)
        pickling.show_sources(pickle.load(sent))
    except Exception as e:
        with contextlib.suppress(Exception):  # its class may forbid new attributes
            e.add_note("while loading the function and its arguments: what they need must be importable in a rank")
        raise
    return function, args, kwargs


def _look_fresh(setting: Setting, out: TextIO, err: TextIO) -> None:
    """Give this process the state of one that has just been started where the caller is. It prints to `out` and
    `err`."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # New streams: those of the server belong to the descriptors that it had
    sys.stdout, sys.stderr = out, err
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc, assignment]
    if setting.folder is not None:
        os.chdir(setting.folder)
    interpreter.restore_environment(setting.environment)
    sys.path[:] = setting.path
    sys.argv[:] = setting.argv
    sys.modules["__main__"] = main = ModuleType("__main__")
    file, name = setting.main
    if file:
        main.__file__ = file
    if name:
        main.__spec__ = ModuleSpec(name, None)
    if setting.authkey:
        importlib.import_module("multiprocessing.process").current_process().authkey = setting.authkey
    importlib.invalidate_caches()


# --- a rank with an interpreter of its own ----------------------------------------------------------------------------


def command(number: int, events: socket.socket, control: socket.socket | None, files: list[int]) -> list[str]:
    """Return the command line of a fresh rank, under the server's own interpreter options."""
    sockets = events.fileno(), control.fileno() if control else -1
    return interpreter.command("shmcoll.runner.serve_calls", number, *sockets, *files)


def main() -> NoReturn:
    interpreter.begin()
    number, events, control, *files = map(int, sys.argv[1:])
    for fd in (events, control, *files):
        if fd >= 0:
            os.set_inheritable(fd, False)
    serve(number, socket.socket(fileno=events), socket.socket(fileno=control) if control >= 0 else None, files)


if __name__ == "__main__":
    main()
