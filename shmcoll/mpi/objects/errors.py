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
_LARGEST_CLASS = (1 << _CLASS_BITS) - 1
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
    (OverflowError, c["MPI_ERR_ARG"]),
    (IndexError, c["MPI_ERR_RANK"]),
    (OSError, c["MPI_ERR_IO"]),
    (NotImplementedError, c["MPI_ERR_UNSUPPORTED_OPERATION"]),
]

_CLASS_NAMES = {
    value: name
    for name, value in c.items()
    if name.startswith(("MPI_ERR_", "MPI_SUCCESS", "MPI_T_ERR_")) and value <= _LARGEST_CLASS
}


class MPIError(Exception):
    """What a function of MPI finds wrong.

    error_class: a class of the standard, or of the program. owner: the object whose error handler sees it, if it is not
    the first one among the arguments that has a handler.
    """

    def __init__(self, error_class: int | str, text: str, *, owner: object = None):
        super().__init__(text)
        self.owner = owner
        self.error_class = c[error_class] if isinstance(error_class, str) else error_class


#: classes, codes and texts that the program has added
_added: dict[int, tuple[int, str]] = {}
LAST_USED = [c["MPI_ERR_LASTCODE"]]  # the largest code that is in use

_texts: OrderedDict[int, str] = OrderedDict()
_numbers = itertools.count(1)


def add_code(error_class: int | None) -> int:
    """Return a new code of a class; a new class, which is a code as well, for None."""
    LAST_USED[0] += 1
    _added[LAST_USED[0]] = LAST_USED[0] if error_class is None else error_class, ""
    return LAST_USED[0]


def added(code: int) -> tuple[int, str]:
    """Return the class and the text of a code that the program has added.

    Raises:
        MPIError: it has not added this code.
    """
    if code not in _added:
        raise MPIError("MPI_ERR_ARG", f"code {code} was not added by this program")
    return _added[code]


def set_text(code: int, text: str) -> None:
    """Set the text of a code that the program has added."""
    _added[code] = added(code)[0], text


def remove_code(code: int, *, is_class: bool) -> None:
    """Forget a code, or a class, that the program has added. Its text and the codes of a class are removed first."""
    error_class, text = added(code)
    codes = [one for one, (known, _) in _added.items() if known == code and one != code]
    if (error_class == code) != is_class:
        raise MPIError("MPI_ERR_ARG", f"code {code} is {'no class' if is_class else 'a class'}")
    if text or codes:
        raise MPIError(
            "MPI_ERR_OTHER", f"code {code} still has {f'the codes {codes}' if codes else f'a text: {text!r}'}"
        )
    del _added[code]


def error_code(error: BaseException, operation: str) -> int:
    """Return the code for an exception that has come out of a function of MPI."""
    if isinstance(error, MPIError):
        kind, text = error.error_class, f"{operation}: {error}"
    else:
        kind = next((code for known, code in _CLASSES if isinstance(error, known)), c["MPI_ERR_INTERN"])
        is_plain = isinstance(error, ValueError | TypeError | IndexError | ShmcollError)  # most are ours
        text = f"{operation}: {error}" if is_plain else f"{operation}: {type(error).__name__}: {error}"
        if isinstance(error, ShmcollError) and error.operation:  # it names the call
            text = str(error)
    if waits := getattr(error, "waits", ""):  # of a timeout
        text = f"{text} {waits}"
    if kind > _LARGEST_CLASS:  # a code of the program
        return kind
    code = kind | next(_numbers) % (1 << 29 - _CLASS_BITS) << _CLASS_BITS
    _texts[code] = text
    if len(_texts) > _KEPT_TEXTS:
        _texts.popitem(last=False)
    return code


def text_of(code: int) -> str | None:
    """Return the text of a code; None if MPI has none for it."""
    if code in _added:
        return _added[code][1]
    return _texts.get(code) or _CLASS_NAMES.get(class_of(code))


def class_of(code: int) -> int:
    """Return the class of a code."""
    return _added[code][0] if code in _added else code & _LARGEST_CLASS
