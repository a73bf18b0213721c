"""The call in a rank: load the function, call it, answer, end.

A forked rank comes here from the server. A rank with an interpreter of its own (`method="spawn"`) is started as `python
-m shmcoll.runner.run_call CALL ANSWERS EVENTS RANK SHARED...`. All of these except RANK are descriptors.
"""

import importlib
import os
import pickle
import signal
import socket
import sys
import traceback
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, BinaryIO, NoReturn, TextIO

from shmcoll.diagnostics import stack_server
from shmcoll.engine.system import interpreter
from shmcoll.engine.system.text import line_writer
from shmcoll.runner import pickling, protocol, shared_memory
from shmcoll.runner.answers import Answer, Unreachable
from shmcoll.runner.protocol import Setting
from shmcoll.runtime import user_code


def perform(call: int, answers: int, events: socket.socket, rank: int, shared: list[int]) -> NoReturn:
    """Do the work of the rank: call the function, answer, and end the process as the interpreter would.

    Exit codes: 0 with a result, 1 with an exception, and the code of a `SystemExit` that the function raises.
    """
    code = 1
    answer = Answer(answers, events, rank, "shmcoll.run")
    try:
        with protocol.reopen(call, "rb") as sent:
            setting: Setting = pickle.load(sent)
            answer.span = setting.span
            try:
                look_fresh(setting, line_writer(1), line_writer(2))
                stack_server.offer()  # the function may never join the job
                with shared_memory.received(shared):
                    answer.result(user_code.call(_call, sent, call))
                code = 0
            except SystemExit as e:
                code = user_code.exit_code(e)
            except Unreachable:
                raise
            except BaseException as e:
                answer.exception(e, ends=True)
        code = user_code.end_as_interpreter(code)
    except KeyboardInterrupt:  # the server has stopped the call
        code = code or 1
    except BaseException:
        traceback.print_exc()
        code = code or 1
    finally:
        os._exit(code)


def _call(sent: BinaryIO, call: int) -> Any:
    with sent:
        function, args, kwargs = load(sent)
    os.close(call)
    value = function(*args, **kwargs)
    finish_work()
    return value


def load(sent: BinaryIO) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the function and its arguments, which follow the setting."""
    try:
        function, args, kwargs = pickle.load(sent)
        pickling.show_sources(pickle.load(sent))
    except Exception as e:
        e.add_note("while loading the function and its arguments: what they need must be importable in a rank")
        raise
    return function, args, kwargs


def finish_work() -> None:
    """Complete asynchronous calls, as at the end of the interpreter. Raises the first failure that the program has not
    seen."""
    if "shmcoll.runtime.async_worker" in sys.modules:
        sys.modules["shmcoll.runtime.async_worker"].finish_all()
        lost = sys.modules["shmcoll.runtime.lost_failures"]
        lost.tell_all()
        if error := lost.first():
            error.add_note("in an asynchronous call that nobody waited for")
            raise error


def look_fresh(setting: Setting, out: TextIO, err: TextIO) -> None:
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
    importlib.invalidate_caches()


# --- a rank with an interpreter of its own ----------------------------------------------------------------------------


def command(call: int, answers: int, events: int, rank: int, shared: list[int]) -> list[str]:
    """Return the command line of a fresh rank, under the server's own interpreter options."""
    return interpreter.command("shmcoll.runner.run_call", call, answers, events, rank, *shared)


def main() -> NoReturn:
    interpreter.begin()
    call, answers, events, rank, *shared = map(int, sys.argv[1:])
    for fd in (call, answers, events, *shared):
        os.set_inheritable(fd, False)
    perform(call, answers, socket.socket(fileno=events), rank, shared)


if __name__ == "__main__":
    main()
