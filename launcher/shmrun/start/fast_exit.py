"""How the launcher and its forks end quickly: what was loaded before the fork is not taken apart.

An interpreter that ends clears all modules. In a rank that touches, and thereby copies, most pages that it shares with
the launcher: this cost 25 of the 40 ms of processor time of an empty rank, and half of the time of a job of 64 ranks.
So at its end the packages that the launcher has loaded are hidden from the interpreter and kept in memory. Everything
else is as usual: exit code, atexit handlers, open files of the program, its objects and its own modules.

Exit handlers that tools have registered before us (coverage) run later than `_hide`. Then the standard library stays,
because they may import from it.
"""

import atexit
import contextlib
import os
import signal
import sys
from types import ModuleType
from typing import NoReturn

_shared: dict[str, ModuleType] = {}
_staying = {"__main__", "builtins", "sys"}


def be_quick() -> None:
    """Register `_hide`. Call this first of all: what is registered first runs last."""
    if atexit._ncallbacks():
        _staying.update(sys.stdlib_module_names)
    atexit.register(_hide)


def note_loaded() -> None:
    """Note the modules that are loaded before the ranks are forked: these are not the program's."""
    import ctypes

    _shared.update((name, module) for name, module in sys.modules.items() if name.partition(".")[0] not in _staying)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_shared))  # forever


def leave(code: int) -> NoReturn:
    """End a process that has run no program of the user, and has no other thread: what is in memory goes with it."""
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _hide() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process ends anyway, and an exception here would be printed
    for name, module in _shared.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
