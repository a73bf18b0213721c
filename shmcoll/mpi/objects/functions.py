"""How a Python function becomes a function of MPI that C calls.

`@mpi()` on a function of Python registers it under its name, `MPI_` before it, and under the name of the form for large
counts. `signatures.py` has what such a function takes and returns. When C calls it, the handles are looked up, and what
it returns is stored. A function in C returns a code; an exception becomes one (`errors.py`), after the error handler of
the object that the call is about has been called. No exception goes back to C: `ctypes` would print and forget it.

Many functions have a native twin, which calls the Python one for what is not simple (`native.py`). What native code has
left unfinished is settled before any function of Python (`native_requests.py`).
"""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from types import CodeType
from typing import Any

from shmcoll.engine.layout import WORD
from shmcoll.engine.native import mpi_table
from shmcoll.mpi.abi import signatures
from shmcoll.mpi.abi.facts import FUNCTIONS
from shmcoll.mpi.abi.memory import Numbers, WrongMemory, number_type
from shmcoll.mpi.objects import error_handlers, interrupts
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.handles import KINDS
from shmcoll.mpi.objects.native_requests import settle
from shmcoll.mpi.objects.native_table import WORDS
from shmcoll.profiling.front_ends import if_traced

Function = Callable[..., Any]

_HELD = mpi_table.HELD // WORD

#: what makes the callback of ctypes, by the name in C: a program calls few of them, and each takes a while to make
MAKERS: dict[str, Callable[[], Any]] = {}


class _Callbacks(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        made = self[name] = MAKERS[name]()
        return made


#: by the name in C; each is made when it is asked for
CALLBACKS = _Callbacks()


def mpi(
    *, inout: tuple[str, ...] = (), nullable: tuple[str, ...] = (), name: str = "", with_form: bool = False
) -> Callable[[Function], Function]:
    """Register a function of MPI.

    Args:
        inout: the names of arguments in C, pointers, that go in and come out: the function gets them as `Numbers`.
        nullable: the names of handles in C that may be null: the function gets None. So may be hints, which are an
            MPI_Info that is not the first argument. The same for texts.
        name: in C, without `MPI_`, if it is not that of the function.
        with_form: whether the function gets, as its first argument, whether it is the form for large counts.
    """

    def register(function: Function) -> Function:
        for one in (f"MPI_{name or function.__name__}", f"MPI_{name or function.__name__}_c"):
            if one in FUNCTIONS:
                called = partial(function, one.endswith("_c")) if with_form else function
                MAKERS[one] = partial(callback, one, called, frozenset(inout), frozenset(nullable))
        return function

    return register


def callback(
    name: str, function: Function, inout: frozenset[str] = frozenset(), nullable: frozenset[str] = frozenset()
) -> Any:
    """Return what C can call for a function of MPI, by its name in C."""
    arguments = signatures.arguments(name, inout, nullable)
    pointers = [(i, one.name) for i, one in enumerate(arguments) if one.must_point]
    inputs = [
        (i, _reader(one, one.name in nullable or (one.type == "MPI_Info" and i > 0)))
        for i, one in enumerate(arguments)
        if one.kind < signatures.OUT
    ]
    outputs = [(i, _writer(one)) for i, one in enumerate(arguments) if one.kind >= signatures.OUT]
    result, operation = number_type(FUNCTIONS[name][0]), name.removesuffix("_c")
    function = if_traced(operation, function)

    def called(*given: int) -> Any:
        taken: list[Any] = []
        try:
            if WORDS.item(_HELD):
                settle()
            for i, pointer in pointers:
                if not given[i]:
                    raise WrongMemory(f"{pointer} is a null pointer")
            for i, read in inputs:
                taken.append(read(given[i]) if read else given[i])
            told = function(*taken)
            if len(outputs) == 1:
                told = (told,)
            for (i, write), value in zip(outputs, told or (), strict=True):
                write(given[i], value)
            return 0
        except BaseException as error:
            for i, read in inputs[len(taken) :]:  # among them may be the object whose handler sees the error
                with suppress(MPIError):
                    taken.append(read(given[i]) if read else given[i])
            return error_handlers.handle(error, operation, taken, has_outputs=bool(outputs))

    if FUNCTIONS[name][0] == "int":
        _catch_early(called.__code__)
        return ctypes.CFUNCTYPE(result, *(one.ctype for one in arguments))(called)
    return ctypes.CFUNCTYPE(result, *(one.ctype for one in arguments))(function)  # it returns no code


@cache
def _catch_early(code: CodeType) -> None:
    interrupts.catch_early(code)


def _reader(argument: signatures.Argument, may_be_null: bool) -> Callable[[int], Any] | None:
    if argument.kind == signatures.HANDLE:
        kind = KINDS[argument.type]
        return kind.get if may_be_null else kind.find
    if argument.kind == signatures.ARRAY:
        element = number_type(argument.type)
        return lambda address: Numbers(element, address, argument.name)
    return None


def _writer(argument: signatures.Argument) -> Callable[[int, Any], None]:
    element = number_type(argument.type)
    at = element.from_address
    null = KINDS[argument.type].null if argument.kind == signatures.OUT_HANDLE else None

    def write_number(address: int, value: Any) -> None:
        at(address).value = int(value)

    def write_handle(address: int, value: Any) -> None:
        at(address).value = null if value is None else value.handle

    return write_number if null is None else write_handle
