"""The calls in a rank that stays: take one, perform it, answer; end when the server closes the socket.

A forked rank comes here from the server. A rank with an interpreter of its own is started as `python -m
shmcoll.runner.serve_calls CONTROL SETTING RANK`. The first two are descriptors.

Between calls the rank ignores SIGINT. Each call has its own stdout and stderr. The output of threads between calls is
kept, and printed at the beginning of the next call (`kept_output.py`).

A call is answered when its asynchronous calls have ended, which other ranks may need. Posted receives stay posted.
"""

import contextlib
import io
import os
import pickle
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from shmcoll.diagnostics import stack_server
from shmcoll.engine.system import interpreter
from shmcoll.engine.system.descriptors import file_of
from shmcoll.runner import protocol, shared_memory
from shmcoll.runner.answers import Answer, Unreachable
from shmcoll.runner.kept_output import KeptOutput
from shmcoll.runner.protocol import Setting
from shmcoll.runner.run_call import load, look_fresh
from shmcoll.runtime import user_code
from shmcoll.startup import rank_process

CALL = b"call"  # the bytes that come with the descriptors of a call
_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "line_buffering": True}
_raised: list[BaseException] = []  # failures of asynchronous calls that a call has raised


def serve(control: socket.socket, setting: int, rank: int) -> NoReturn:
    """Do the work of the rank until the server closes its end of `control`. Then end as the interpreter would."""
    code = 1
    file = file_of(control.fileno())
    try:
        with protocol.reopen(setting, "rb") as sent:
            output = [KeptOutput(fd) for fd in (1, 2)]
            look_fresh(pickle.load(sent), *(io.TextIOWrapper(io.BufferedWriter(one), **_TEXT) for one in output))
        _ignore_interrupts()
        stack_server.offer()
        os.close(setting)
        while descriptors := _next_call(control):
            call = _Call(control, rank, descriptors, output)
            try:
                call.perform()
            finally:
                _ignore_interrupts()
                call.close()
            if file_of(control.fileno()) != file:
                raise Unreachable(
                    f"rank {rank} of shmcoll.ranks: its program has closed a descriptor that it had not opened"
                )
        code = user_code.end_as_interpreter(0)
    except SystemExit as e:
        code = user_code.exit_code(e)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _next_call(control: socket.socket) -> list[int]:
    """Return the descriptors of the next call; an empty list if the server has closed its end."""
    data, descriptors, flags, _ = socket.recv_fds(control, 64, protocol.MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    if data and flags & socket.MSG_CTRUNC:
        raise protocol.too_many_files()
    return descriptors if data else []


class _Call:
    """One call. Afterwards this process differs only in what the function itself has changed."""

    def __init__(self, control: socket.socket, rank: int, descriptors: list[int], output: list[KeptOutput]):
        self._call, self._answers, *pipes, self._shared = *descriptors[: protocol.DESCRIPTORS], descriptors[4:]
        self._output = output
        for standard, fd in enumerate(pipes, 1):
            rank_process.replace(fd, standard)
        for one in output:
            one.open()
        self._answer = Answer(self._answers, control, rank, "shmcoll.ranks")
        self._files = [(fd, file_of(fd)) for fd in (self._call, self._answers)]

    def perform(self) -> None:
        """Call the function and answer. Raises `SystemExit` as the function does, and `Unreachable`."""
        try:
            with shared_memory.received(self._shared):
                value = user_code.call(self._value)
                self._silence()
                self._answer.result(value)
        except (SystemExit, Unreachable):
            raise
        except BaseException as e:
            _ignore_interrupts()
            self._silence()
            self._answer.exception(e, ends=False)

    def close(self) -> None:
        for fd, file in self._files:
            if file_of(fd) == file:
                os.close(fd)

    def _value(self) -> Any:
        with protocol.reopen(self._call, "rb") as sent:
            setting: Setting = pickle.load(sent)
            self._answer.span = setting.span
            signal.signal(signal.SIGINT, signal.default_int_handler)
            function, args, kwargs = load(sent)
        self._answer.loaded = True
        value = function(*args, **kwargs)
        _await_work()
        _ignore_interrupts()
        return value

    def _silence(self) -> None:
        """Flush the output of the call into its pipes before it is answered: the caller does not read them
        afterwards."""
        self._answer.check()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the program may have replaced or closed it
                stream.flush()
        for one in self._output:
            one.keep()
        null = os.open(os.devnull, os.O_WRONLY)
        for standard in (1, 2):
            os.dup2(null, standard)
        os.close(null)


def _await_work() -> None:
    """Complete asynchronous calls, but leave receives posted. Raises once a failure that the program cannot see any
    more."""
    if "shmcoll.runtime.async_worker" in sys.modules:
        sys.modules["shmcoll.runtime.async_worker"].await_calls()
        error = sys.modules["shmcoll.runtime.lost_failures"].first()
        if error and error not in _raised:
            _raised.append(error)
            error.add_note("in an asynchronous call that nobody waited for")
            raise error


def _ignore_interrupts() -> None:
    """Ignore SIGINT from now on. Raises `KeyboardInterrupt` for one that has come before."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise


# --- a rank with an interpreter of its own ----------------------------------------------------------------------------


def command(control: int, setting: int, rank: int) -> list[str]:
    """Return the command line of a fresh rank, under the server's own interpreter options."""
    return interpreter.command("shmcoll.runner.serve_calls", control, setting, rank)


def main() -> NoReturn:
    interpreter.begin()
    control, setting, rank = map(int, sys.argv[1:])
    for fd in (control, setting):
        os.set_inheritable(fd, False)
    serve(socket.socket(fileno=control), setting, rank)


if __name__ == "__main__":
    main()
