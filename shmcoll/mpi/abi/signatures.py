"""What a function of MPI takes and returns, from its arguments in C.

Python functions for MPI are written without C: they take what goes in, and return what comes out.

    C                                       in Python
    int x, MPI_Aint x, MPI_Offset x         a number that goes in
    MPI_Comm comm                           the object of the handle; the null handle is refused
    MPI_Comm * newcomm                      comes out: the function returns an object, or None for the null handle
    int * flag                              comes out: the function returns a number
    const int x[], int x[], MPI_Comm x[]    `Numbers` that goes in: an array, which the function reads or writes
    MPI_Status * status                     an address that goes in
    void * x, char * x, functions           an address that goes in

Two lists say what the C type alone does not: arguments that go in and come out (inout), which are `Numbers`, and
handles and texts that may be null (nullable). A function that has outputs returns them in their order, as a tuple if
there are several. Where it must write, and where it reads a text, a pointer may not be null (`Argument.must_point`);
the others are checked when they are used.
"""

import re
from dataclasses import dataclass
from typing import Any

from shmcoll.mpi.abi.facts import FUNCTIONS
from shmcoll.mpi.abi.memory import number_type

IN, HANDLE, ARRAY, ADDRESS, OUT, OUT_HANDLE = range(6)

_HANDLES = {
    *("MPI_Comm", "MPI_Group", "MPI_Datatype", "MPI_Errhandler", "MPI_Op", "MPI_Info", "MPI_Win", "MPI_Request"),
    *("MPI_Session", "MPI_Message", "MPI_File"),
}
_NUMBERS = {"int", "MPI_Fint", "MPI_Aint", "MPI_Count", "MPI_Offset", "double"}
#: what a pointer to must not be null: text, and functions of the program without which an object has no use
_NEEDED = {
    *("char", "MPI_User_function", "MPI_User_function_c", "MPI_Datarep_extent_function"),
    *(f"MPI_{name}_errhandler_function" for name in ("Comm", "Win", "File", "Session")),
    *(f"MPI_Grequest_{name}_function" for name in ("query", "free", "cancel")),
}
_DECLARATION = re.compile(r"(?:const )?(\w+) (\**)(\w+)?(\[.*\])?$")


@dataclass(frozen=True)
class Argument:
    """One argument. kind: one of the constants above. type: of the number or handle, in C."""

    name: str
    kind: int
    type: str
    ctype: Any
    must_point: bool = False


def arguments(
    function: str, inout: frozenset[str] = frozenset(), nullable: frozenset[str] = frozenset()
) -> list[Argument]:
    """Return the arguments of a function of MPI. inout, nullable: the names of those that are in the two lists."""
    return [_argument(text, inout, nullable) for text in FUNCTIONS[function][1:]]


def _argument(text: str, inout: frozenset[str], nullable: frozenset[str]) -> Argument:
    found = _DECLARATION.match(text)
    if found is None:
        return Argument(text, ADDRESS, "void", number_type("void*"))
    kind, stars, name, array = found[1], found[2], found[3] or "", found[4]
    pointers = len(stars) + (array or "").count("[")
    known = kind in _HANDLES or kind in _NUMBERS
    if not pointers and known:
        return Argument(name, HANDLE if kind in _HANDLES else IN, kind, number_type(kind))
    pointer = number_type("void*")
    if pointers != 1 or not known:
        must_point = (kind in _NEEDED or name == "baseptr") and name not in nullable and pointers == 1
        return Argument(name, ADDRESS, kind, pointer, must_point)
    if array or text.startswith("const ") or name in inout:
        return Argument(name, ARRAY, kind, pointer)
    return Argument(name, OUT_HANDLE if kind in _HANDLES else OUT, kind, pointer, True)
