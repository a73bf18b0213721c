"""Calling the user's code from ours, and ending a process as the interpreter does.

The code may fork, and the fork may come back: it returns, raises, or calls `sys.exit()`. It is not the rank, and must
not go on with the rank's work: take the next item, answer, or serve asynchronous calls. So it ends where it comes back,
as a program of its own would.
"""

import atexit
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the function. Ends a fork of this process that comes back from it."""
    me = os.getpid()
    try:
        value = function(*args, **kwargs)
    except BaseException as error:
        if os.getpid() == me:
            raise
        end_fork(error)
    if os.getpid() != me:
        end_fork(None)
    return value


def end_fork(error: BaseException | None) -> NoReturn:
    """End this process, a fork that has come back, as a program that has ended, or has raised `error`."""
    code = 1
    try:
        if error is None or isinstance(error, SystemExit):
            code = exit_code(error) if error else 0
        else:
            traceback.print_exception(error)
        code = end_as_interpreter(code)
    except BaseException:
        traceback.print_exc()
        code = code or 1
    finally:
        os._exit(code)


def exit_code(error: SystemExit) -> int:
    """Return the exit code that a program asks for. Prints what the interpreter would print."""
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def end_as_interpreter(code: int) -> int:
    """Do what the interpreter does at its end. Returns the exit code: 1 if a failure was printed that the program had
    not seen."""
    threading._shutdown()  # type: ignore[attr-defined]  # joins threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    lost = sys.modules.get("shmcoll.runtime.lost_failures")
    return code or (1 if lost and lost.first() else 0)
