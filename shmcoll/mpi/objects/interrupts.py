"""Ctrl-C, and exits from signal handlers, in the middle of a function of MPI that C has called.

C cannot pass a Python exception on, so it is raised once more where Python goes on: behind the call of the program. The
function returns success, because mpi4py would raise an error of its own otherwise, and the program would see that one.
It may do so only if mpi4py reads nothing that the function should have written; else it returns an error, and the
exception is raised a moment later, should the program go on.

Asked for by Python code, the exception would be raised at once, in the function itself. So what asks for it is a weak
reference to something that the function's frame keeps: its callback is native code, which runs when the frame is gone.

An exception that is raised when the function has not yet begun to catch is one that ctypes would print and forget. Then
the call has not been made, and C learns of no error.
"""

import _thread
import ctypes
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any

_LATER = 0.1  # seconds, in which a program that an error ends has ended

_raise_in: Any = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object, ctypes.py_object)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)
_kept: dict[int, Any] = {}  # the last weak reference of a thread


class _Token:
    __slots__ = ("__weakref__",)


def raise_behind(error: BaseException, frame: list[Any]) -> None:
    """Have an exception raised in this thread when a frame is gone. frame: a list that it alone keeps."""
    token = _Token()
    thread = threading.get_ident()
    _kept[thread] = weakref.ref(token, partial(_raise_in, thread, kind_of(error)))
    frame.append(token)


def raise_later(error: BaseException) -> None:
    """Have an exception raised in this thread after a moment."""
    thread, kind = threading.get_ident(), kind_of(error)

    def wait() -> None:
        time.sleep(_LATER)
        _raise_in(thread, kind, None)

    _thread.start_new_thread(wait, ())


def kind_of(error: BaseException) -> type[BaseException]:
    """Return a class of which an exception like this one can be made, without arguments."""
    kind, args = type(error), error.args  # not the error itself: its traceback keeps the frame
    if not args:
        return kind
    return type(kind.__name__, (kind,), {"__init__": lambda self, *_: kind.__init__(self, *args)})


def put_off(error: BaseException, frame: list[Any]) -> None:
    """Do as `raise_behind`, or as `raise_later` where nothing of Python is behind the caller: in a program in C."""
    if sys._getframe(1).f_back is None:
        raise_later(error)
    else:
        raise_behind(error, frame)


def catch_early(code: CodeType, catch: Callable[[BaseException, list[Any]], None] = put_off) -> None:
    """Catch what is raised before functions that run this code have begun to catch. catch: gets it, and a list that a
    frame alone keeps."""
    before = sys.unraisablehook

    def hook(told: Any) -> None:
        error, frame = told.exc_value, list[Any]()
        if getattr(told.object, "__code__", None) is not code or isinstance(error, Exception):
            before(told)
        else:
            catch(error, frame)

    sys.unraisablehook = hook
