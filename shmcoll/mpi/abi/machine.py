"""The machine code of the library (`library.py`), for each architecture.

    jump        a function of MPI: it goes where its slot of the table points
    later       where a slot points at first: it takes the number of the slot to `resolve`
    resolve     calls the resolver with that number, and goes where the slot points then, with the arguments of the
                program: to `later` again, if Ctrl-C has kept the resolver from its work
    boot        the resolver at first, in a process where Python has not filled the table: it lets Python do that

`boot` begins an interpreter by `start`, unless the process has one; then it runs `text`, which imports this package,
holding the interpreter's lock. If that is not possible, `fail` ends the process with a line that says why. Afterwards
the resolver is a function of Python, which `boot` goes to.

All of it is addressed relative to the program counter, and no function of MPI takes a floating-point number.
"""

from collections.abc import Callable, Mapping

#: functions that the code calls: of CPython, and of libc
CALLED = (
    *("Py_IsInitialized", "Py_InitializeEx", "PyRun_SimpleString", "PyEval_SaveThread"),
    *("PyGILState_Ensure", "PyGILState_Release", "putenv", "errx"),
)
STUB = 16  # bytes of `jump` and of `later`

Places = Mapping[str, int]


class Machine:
    """An architecture. places: the addresses of pointers to the functions in CALLED and to the resolver, of the table,
    of texts, and of code that has been written before."""

    number: int  # in ELF
    relative: int  # the type of a relocation that adds the address of the library
    symbol: int  # and of one that is the address of a symbol

    #: code by name, in the order in which it is written
    parts: tuple[str, ...] = ("succeed", "store_1", "copy_attribute", "resolve", "fail", "start", "boot")

    def write(self, part: str, at: int, places: Places) -> bytes:
        """Return a part of the code, at an address."""
        made: Callable[[int, Places], bytes] = getattr(self, part)
        return made(at, places)

    def jump(self, at: int, slot: int) -> bytes:
        raise NotImplementedError

    def later(self, at: int, number: int, resolve: int) -> bytes:
        raise NotImplementedError
