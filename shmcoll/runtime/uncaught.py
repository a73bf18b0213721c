"""The exception that ends this process, as distinct from exceptions that are only printed.

A rank has failed when its interpreter ends by an exception, and only then. A call of `sys.excepthook` does not mean
that: programs call it to print an exception, and go on. C code does the same by PyErr_Print; a module that was built
for an older numpy is an example. Two kinds of callers know that an exception is the last one, and both end in
`ends_by`:

* Python code that runs the program (shmrun, `shmcoll.run`) and has caught the exception calls `ends_by` itself.
* The interpreter calls `sys.excepthook` in the main thread from C, when no Python code runs any more. Then the
  outermost frame of the stack is the hook's own.

A program may replace the hook without calling ours. The interpreter leaves the exception in `sys.last_value`, too, and
`at_end` finds it there at the end of the process. The traceback of the last exception begins at a frame that has no
caller. The traceback of an exception that C code has printed earlier begins at a frame below the program's.
"""

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from shmcoll.diagnostics import other_names
from shmcoll.diagnostics.call_site import short_path
from shmcoll.engine.system.text import printable
from shmcoll.engine.system.tracebacks import is_of_program, shorten
from shmcoll.errors import RankFailed

Listener = Callable[[BaseException], None]

_listeners: list[Listener] = []
_last: BaseException | None = None
_previous: Callable[..., Any] = sys.__excepthook__
_is_installed = False


def tell_of_end(listener: Listener) -> None:
    """Have `listener` called with the exception that ends this process, before its traceback is printed."""
    global _previous, _is_installed
    if not _is_installed:
        _previous, sys.excepthook, _is_installed = sys.excepthook, _hook, True
    _listeners.append(listener)


def tell_no_more(listener: Listener) -> None:
    """Undo `tell_of_end`."""
    _listeners.remove(listener)


def ends_by(error: BaseException) -> None:
    """Note that this process ends by an exception. Calling it again has no effect."""
    global _last
    explain(error)
    with contextlib.suppress(Exception):  # its class may forbid new attributes
        shorten(error)
    if _last is None:
        _last = error
        if isinstance(error, EOFError) or type(error).__name__ == "BdbQuit":  # of input(), and of breakpoint()
            _note_empty_input(error)
        for listener in _listeners:
            listener(error)


def _note_empty_input(error: BaseException) -> None:
    with contextlib.suppress(OSError):  # it is closed
        if os.path.samestat(os.fstat(0), Path(os.devnull).stat()):
            error.add_note("The standard input of this rank is empty; under shmrun, rank 0 has that of the terminal")


def explain(error: BaseException) -> None:
    """Add a note to an exception about a package or a name that is missing, if that has to do with shmcoll."""
    note = other_names.of_error(error)
    if note and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def is_last(error: BaseException) -> bool:
    """Return whether an exception is the one that ends this process."""
    return error is _last


def is_consequence(error: BaseException | None) -> bool:
    """Return whether an exception was raised because another rank had failed: a `RankFailed`, or what mpi4py makes of
    it, is in its chain."""
    seen: set[int] = set()
    while error and id(error) not in seen:
        if isinstance(error, RankFailed) or _is_of_mpi(error):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _is_of_mpi(error: BaseException) -> bool:
    facts, error_class = sys.modules.get("shmcoll.mpi.abi.facts"), getattr(error, "Get_error_class", None)
    return bool(facts and error_class and error_class() == facts.CONSTANTS["MPI_ERR_PROC_ABORTED"])


def in_words(error: BaseException) -> str:
    """Return an exception as the interpreter prints it last: 'ValueError: bad sample'."""
    try:
        words = str(error)
    except Exception:
        words = "(its str() failed)"
    return printable(f"{type(error).__name__}: {words}".rstrip(": "))


def in_words_and_line(error: BaseException) -> str:
    """Return `in_words`, and the line of the program that has raised the exception: "KeyError: 'x' at train.py:12"."""
    site, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if is_of_program(name):
            site = f" at {short_path(name)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return in_words(error) + site


def in_one_line(error: BaseException) -> str:
    """Return the first line of `in_words`."""
    return in_words(error).partition("\n")[0]


def at_end() -> None:
    """Find, at the end of the process, an exception that the program's own hook has hidden from ours."""
    error = getattr(sys, "last_value", None)
    trace = error.__traceback__ if isinstance(error, BaseException) else None
    if error is not None and trace is not None and trace.tb_frame.f_back is None and not _is_interactive():
        ends_by(error)


def _hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if _is_called_at_end(sys._getframe()):
        ends_by(error)
    explain(error)
    is_its_own = traceback is error.__traceback__
    shorten(error)
    _previous(kind, error, error.__traceback__ if is_its_own else traceback)


def _is_called_at_end(frame: FrameType) -> bool:
    outermost = frame
    while outermost.f_back is not None:
        outermost = outermost.f_back
    called_by_c = outermost is frame or outermost.f_code is _code(sys.excepthook)
    return called_by_c and threading.current_thread() is threading.main_thread() and not _is_interactive()


def _is_interactive() -> bool:
    """Return whether the interpreter goes on after an exception: at a prompt, or because of `python -i`."""
    return bool(sys.flags.interactive or sys.flags.inspect or hasattr(sys, "ps1") or os.environ.get("PYTHONINSPECT"))


def _code(hook: Any) -> CodeType | None:
    """Return the code of a hook: a function, a method, a partial, or any object that can be called."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    for function in (hook, getattr(hook, "__func__", None), vars(type(hook)).get("__call__")):
        if isinstance(code := getattr(function, "__code__", None), CodeType):
            return code
    return None
