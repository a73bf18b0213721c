"""What happens to an error that a function of MPI has found: the error handler of its object decides.

The object is the first communicator, window, file or session among the arguments. An error about none of them, such as
one of a datatype, belongs to MPI_COMM_SELF, as MPI 4 has it. MPI_ERRORS_ARE_FATAL and MPI_ERRORS_ABORT end the process
after the other ranks have been told why; MPI_ERRORS_RETURN returns the code; a handler of the program is called and the
code is returned behind it.
"""

import ctypes
import os
import sys
from typing import Any

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects import interrupts
from shmcoll.mpi.objects.errors import MPIError, class_of, error_code, text_of
from shmcoll.mpi.objects.handles import COMM, ERRHANDLER

_LIBC = ctypes.CDLL(None)
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
_FILE_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_int))


_REFUSALS = (MPIError, ValueError, TypeError, IndexError, OverflowError)


class ErrorHandler:
    """An error handler. address: of the program's function in C; 0 for those of the standard."""

    handle = 0

    def __init__(self, address: int = 0, *, is_of_files: bool = False):
        self._function = (_FILE_FUNCTION if is_of_files else _FUNCTION)(address) if address else None
        self._number = ctypes.c_size_t if is_of_files else ctypes.c_int

    @property
    def is_predefined(self) -> bool:
        return self._function is None

    def call(self, obj: Any, code: int) -> None:
        """Do what the handler does with an error of an object."""
        if self is ERRORS_RETURN:
            return
        if self._function is None:
            _end(code)
        else:
            self._function(ctypes.byref(self._number(obj.handle)), ctypes.byref(ctypes.c_int(code)))


ERRORS_ARE_FATAL, ERRORS_RETURN, ERRORS_ABORT = ErrorHandler(), ErrorHandler(), ErrorHandler()
for _handler, _name in (
    (ERRORS_ARE_FATAL, "MPI_ERRORS_ARE_FATAL"),
    (ERRORS_RETURN, "MPI_ERRORS_RETURN"),
    (ERRORS_ABORT, "MPI_ERRORS_ABORT"),
):
    ERRHANDLER.add(_handler, c[_name])


def handle(error: BaseException, operation: str, arguments: list[Any], *, has_outputs: bool) -> int:
    """Let the error handler see what has come out of a function of MPI. Return the code.

    An exception that is not an error, such as KeyboardInterrupt, is raised again when the function has returned, if
    Python goes on then (`interrupts.py`). has_outputs: whether C reads what the function should have written.
    """
    code = error_code(error, operation)
    if not isinstance(error, Exception) and sys._getframe(1).f_back is not None:
        if has_outputs:
            interrupts.raise_later(error)
            return code
        interrupts.raise_behind(error, arguments)
        return c["MPI_SUCCESS"]
    owners = (getattr(error, "owner", None), *arguments)
    obj = next((one for one in owners if hasattr(one, "errhandler")), None) or COMM.known(c["MPI_COMM_SELF"])
    if obj is not None:  # it is there from MPI_Init to MPI_Finalize
        if isinstance(error, _REFUSALS) and hasattr(obj, "native"):
            obj.native._dispatcher.failures.refused(operation, error)  # told to ranks that then miss this one
        obj.errhandler.call(obj, code)
    return code


def _end(code: int) -> None:
    """End this process, and tell the others."""
    text = text_of(code) or ""
    sys.stderr.write(f"{text}\n")
    world = COMM.known(c["MPI_COMM_WORLD"])
    if world is not None:
        world.abort(text)
    exit_now(class_of(code) or 1)


def exit_now(code: int) -> None:
    """End this process, with all that it has printed, by Python or C."""
    sys.stdout.flush()
    sys.stderr.flush()
    _LIBC.fflush(None)
    os._exit(code)
