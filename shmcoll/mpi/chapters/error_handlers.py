"""MPI's chapter on errors: handlers of communicators, windows, files and sessions; classes, codes and texts."""

from typing import Any

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers, put_text, text_at
from shmcoll.mpi.objects import errors
from shmcoll.mpi.objects.error_handlers import ErrorHandler
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.files import NO_FILE
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import ERRHANDLER


def _functions(name: str) -> None:
    """Register the functions for one kind of object."""

    @mpi(name=f"{name}_create_errhandler")
    def create(function: int) -> ErrorHandler:
        handler = ErrorHandler(function, is_of_files=name == "File")
        ERRHANDLER.add(handler)
        return handler

    options: dict[str, Any] = {"nullable": ("file",)}  # files that are opened from now on

    @mpi(name=f"{name}_set_errhandler", **options)
    def set_handler(obj: Any, handler: ErrorHandler) -> None:
        (obj or NO_FILE).errhandler = handler

    @mpi(name=f"{name}_get_errhandler", **options)
    def get_handler(obj: Any) -> ErrorHandler:
        """Return the handler under a handle of its own, which the program frees."""
        handler: ErrorHandler = (obj or NO_FILE).errhandler
        if handler.handle == ERRHANDLER.null:  # it was freed meanwhile
            ERRHANDLER.add(handler)
        return handler

    @mpi(name=f"{name}_call_errhandler")
    def call(obj: Any, code: int) -> None:
        obj.errhandler.call(obj, code)


for _name in ("Comm", "Win", "File", "Session"):
    _functions(_name)


@mpi(inout=("errhandler",))
def Errhandler_free(errhandler: Numbers) -> None:
    """Forget the handle. Objects that have the handler keep it."""
    handler = ERRHANDLER.find(errhandler.value)
    if not handler.is_predefined:
        ERRHANDLER.remove(handler)
    errhandler.value = ERRHANDLER.null


@mpi()
def Add_error_class() -> int:
    return errors.add_code(None)


@mpi()
def Add_error_code(error_class: int) -> int:
    _check_code(error_class)
    return errors.add_code(error_class)


@mpi()
def Add_error_string(code: int, text: int) -> None:
    errors.set_text(code, text_at(text))


@mpi()
def Remove_error_class(code: int) -> None:
    errors.remove_code(code, is_class=True)


@mpi()
def Remove_error_code(code: int) -> None:
    errors.remove_code(code, is_class=False)


@mpi()
def Remove_error_string(code: int) -> None:
    errors.set_text(code, "")


@mpi()
def Error_class(code: int) -> int:
    _check_code(code)
    return errors.class_of(code)


@mpi()
def Error_string(code: int, text: int) -> int:
    _check_code(code)
    return put_text(text, errors.text_of(code) or "", c["MPI_MAX_ERROR_STRING"])


def _check_code(code: int) -> None:
    if errors.text_of(code) is None:
        raise MPIError("MPI_ERR_ARG", f"{code} is no error code")
