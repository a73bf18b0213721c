"""Errors of MPI: classes, codes and texts.

A function of MPI returns a code. The lower bits of a code are its class; the upper bits number the texts of this
process, of which the last are kept. `MPI_Error_string` returns the text: what a method of shmcoll would have raised.
"""

import itertools
from collections import OrderedDict

from shmcoll.errors import (
    ArenaError,
    CallNotAllowed,
    CollectiveMismatch,
    CollectiveTimeout,
    RankFailed,
    ShmcollError,
)
from shmcoll.mpi.abi.facts import CONSTANTS as c

_CLASS_BITS = 7
_KEPT_TEXTS = 1024

_CLASSES: list[tuple[type[BaseException], int]] = [
    (RankFailed, c["MPI_ERR_PROC_ABORTED"]),
    (CollectiveTimeout, c["MPI_ERR_OTHER"]),
    (CollectiveMismatch, c["MPI_ERR_OTHER"]),
    (CallNotAllowed, c["MPI_ERR_OTHER"]),
    (ArenaError, c["MPI_ERR_NO_MEM"]),
    (MemoryError, c["MPI_ERR_NO_MEM"]),
    (ShmcollError, c["MPI_ERR_OTHER"]),
    (TypeError, c["MPI_ERR_ARG"]),
    (ValueError, c["MPI_ERR_ARG"]),
    (IndexError, c["MPI_ERR_RANK"]),
    (OSError, c["MPI_ERR_IO"]),
    (NotImplementedError, c["MPI_ERR_UNSUPPORTED_OPERATION"]),
]


class MPIError(Exception):
    """What a function of MPI finds wrong. error_class: a class of the standard, or of the program."""

    def __init__(self, error_class: int | str, text: str):
        super().__init__(text)
        self.error_class = c[error_class] if isinstance(error_class, str) else error_class


_texts: OrderedDict[int, str] = OrderedDict()
_numbers = itertools.count(1)


def error_code(error: BaseException, operation: str) -> int:
    """Return the code for an exception that has come out of a function of MPI."""
    if isinstance(error, MPIError):
        kind, text = error.error_class, f"{operation}: {error}"
    else:
        kind = next((code for known, code in _CLASSES if isinstance(error, known)), c["MPI_ERR_INTERN"])
        text = str(error) if isinstance(error, ShmcollError) else f"{operation}: {type(error).__name__}: {error}"
    code = kind | next(_numbers) % (1 << 30 - _CLASS_BITS) << _CLASS_BITS
    _texts[code] = text
    if len(_texts) > _KEPT_TEXTS:
        _texts.popitem(last=False)
    return code


def text_of(code: int) -> str | None:
    """Return the text of a code that `error_code` has returned; None if it is forgotten."""
    return _texts.get(code)


def class_of(code: int) -> int:
    return code & (1 << _CLASS_BITS) - 1
