"""How the launcher and its forks end quickly: what was loaded before the fork is not taken apart.

An interpreter that ends clears all modules. In a rank that touches, and thereby copies, most pages that it shares with
the launcher: 25 of the 40 ms of processor time that a rank of nothing cost, and half of the time of a job of 64. So at
its end the packages that the launcher has loaded are hidden from the interpreter and kept in memory. All else is as
ever: exit code, atexit handlers, open files of the program, its objects and its own modules.

What tools have registered before us (coverage) runs later than `_hide`; then the standard library stays, which they may
import from.
"""

import atexit
import sys
from types import ModuleType

_shared: dict[str, ModuleType] = {}
_staying = {"__main__", "builtins", "sys"}


def be_quick() -> None:
    """To be called first of all: what is registered first runs last."""
    if atexit._ncallbacks():
        _staying.update(sys.stdlib_module_names)
    atexit.register(_hide)


def note_loaded() -> None:
    """Before the ranks are forked: what is loaded now is not the program's."""
    import ctypes

    _shared.update((name, module) for name, module in sys.modules.items() if name.partition(".")[0] not in _staying)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_shared))  # for ever


def _hide() -> None:
    for name, module in _shared.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
