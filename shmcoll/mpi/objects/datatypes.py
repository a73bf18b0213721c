"""Datatypes: which bytes, from an address on, belong to an element.

A datatype is a list of contiguous runs of bytes (`runs.py`), computed once, when it is first needed. A contiguous
datatype has one, and its data go as they are, without packing. `derived.py` makes datatypes of others.

Cost of packing n elements: O(n * runs) copies in native code.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.native.tables import type_word
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.attributes import Attributes
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.handles import DATATYPE
from shmcoll.mpi.objects.runs import Runs, joined, one_run

NAMED = c["MPI_COMBINER_NAMED"]
_PREDEFINED = NAMED, *(c[f"MPI_COMBINER_{name}"] for name in ("F90_INTEGER", "F90_REAL", "F90_COMPLEX", "VALUE_INDEX"))


class Contents(NamedTuple):
    """How a datatype was made, for `MPI_Type_get_contents`."""

    combiner: int
    integers: Sequence[int] = ()
    addresses: Sequence[int] = ()
    types: Sequence["Datatype"] = ()
    counts: Sequence[int] = ()  # large ones, of the forms with MPI_Count


class Datatype:
    """A datatype.

    Args:
        find: returns the runs, when they are first needed.
        size: the bytes of an element.
        lb, extent: as the standard has them; the true ones follow from the runs.
        contents: how it was made.
        alignment: of the basic type that needs most.
        has_bounds: whether the program has set lb and extent, of this datatype or of one in it.
        name: of the ABI, or of the program.
    """

    handle = DATATYPE.null

    def __init__(
        self,
        find: Callable[[], Runs],
        size: int,
        lb: int,
        extent: int,
        contents: Contents,
        *,
        alignment: int = 1,
        has_bounds: bool = False,
        name: str = "",
    ):
        self._find = find
        self.size = size
        self.lb, self.extent = lb, extent
        self.alignment = alignment
        self.has_bounds = has_bounds
        self.contents = contents
        self.is_committed = self.is_predefined
        self.name = name
        self.attributes = Attributes()
        self.dtype: np.dtype | None = None  # of numpy, of a basic type
        self.pair: tuple[Datatype, Datatype] | None = None  # of a value and an index

    @cached_property
    def runs(self) -> Runs:
        """Where the bytes of an element are."""
        return self._find()

    @cached_property
    def true_lb(self) -> int:
        return int(self.runs.offsets.min()) if self.size else 0

    @cached_property
    def true_ub(self) -> int:
        return int((self.runs.offsets + self.runs.lengths).max()) if self.size else 0

    @property
    def is_named(self) -> bool:
        return self.contents.combiner == NAMED

    @property
    def is_predefined(self) -> bool:
        """Whether it belongs to MPI, so that the program cannot free it."""
        return self.contents.combiner in _PREDEFINED

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether elements one behind the other are one run from the address on."""
        if self.size == 0:
            return self.extent == 0
        return self.size == self.extent and self.true_lb == 0 and len(self.runs.as_bytes().offsets) == 1

    @cached_property
    def rows(self) -> np.ndarray:
        """The table by which native code packs an element."""
        return self.runs.rows()

    @cached_property
    def basic(self) -> "Datatype | None":
        """The basic type of all runs; None if there are several or none."""
        kinds = self.runs.basics  # `np.unique` would import numpy.ma, at every start
        return BASICS[kinds[0]] if len(kinds) and (kinds == kinds[0]).all() else None

    @cached_property
    def elements(self) -> np.ndarray:
        """How many elements of a basic type each run has."""
        sizes = np.array([one.size for one in BASICS])
        return self.runs.lengths // sizes[self.runs.basics]

    @cached_property
    def sections(self) -> list[tuple[int, "Datatype"]]:
        """Packed bytes of one basic type, one behind the other: how many, and the type."""
        runs = self.runs
        firsts = np.flatnonzero(np.diff(runs.basics, prepend=-1))
        lengths = np.add.reduceat(runs.lengths, firsts) if len(firsts) else firsts
        return [(int(n), BASICS[runs.basics[first]]) for n, first in zip(lengths, firsts, strict=True)]

    def span(self, count: int) -> tuple[int, int]:
        """Return from where to where, relative to the address, bytes of so many elements lie."""
        last = (count - 1) * self.extent
        return self.true_lb + min(last, 0), self.true_ub + max(last, 0)

    def copied(self) -> "Datatype":
        """Return another one that is the same, with no attributes and no handle."""
        made = Datatype.__new__(Datatype)
        made.__dict__ = {**self.__dict__, "attributes": Attributes(), "handle": DATATYPE.null}
        return made

    def native_row(self) -> tuple[int, ...] | None:
        """Return what native functions need; None before it is committed."""
        if not self.is_committed:
            return None
        if self.size and not self.is_contiguous:
            return 0, self.rows.ctypes.data, len(self.rows), self.size, self.lb, self.extent, 0
        basic = self.basic if self.is_contiguous and self.size else None
        known = BY_NUMPY.get(basic.dtype) if basic and basic.dtype else None
        computed = (0, 0, 1)
        if basic and basic.dtype and known:
            computed = type_word(known), self.size // basic.size, basic.dtype.alignment
        return *computed, self.size, self.lb, self.extent, int(self.is_contiguous and self.size > 0)

    def check_committed(self) -> None:
        if not self.is_committed:
            raise MPIError("MPI_ERR_TYPE", f"{self.in_words} is not committed; call MPI_Type_commit")

    @property
    def in_words(self) -> str:
        return self.name or f"datatype {self.handle & 0xFFFFFFFF:#x}"


#: the basic types, by their numbers in runs
BASICS: list[Datatype] = []

#: the dtype of numpy of a basic type, by its name; None for one that numpy lacks
_DTYPES: dict[str, Any] = {
    "CHAR": "i1", "SIGNED_CHAR": "i1", "UNSIGNED_CHAR": "u1", "BYTE": "u1", "WCHAR": "i4", "SHORT": "i2",
    "UNSIGNED_SHORT": "u2", "INT": "i4", "UNSIGNED": "u4", "LONG": "i8", "UNSIGNED_LONG": "u8", "LONG_LONG_INT": "i8",
    "UNSIGNED_LONG_LONG": "u8", "FLOAT": "f4", "DOUBLE": "f8", "LONG_DOUBLE": "g", "PACKED": "u1", "C_BOOL": "?",
    "C_FLOAT_COMPLEX": "c8", "C_DOUBLE_COMPLEX": "c16", "C_LONG_DOUBLE_COMPLEX": "G", "CXX_BOOL": "?",
    "CXX_FLOAT_COMPLEX": "c8", "CXX_DOUBLE_COMPLEX": "c16", "CXX_LONG_DOUBLE_COMPLEX": "G", "INT8_T": "i1",
    "INT16_T": "i2", "INT32_T": "i4", "INT64_T": "i8", "UINT8_T": "u1", "UINT16_T": "u2", "UINT32_T": "u4",
    "UINT64_T": "u8", "AINT": "i8", "OFFSET": "i8", "COUNT": "i8", "CHARACTER": "i1", "LOGICAL": "i4", "INTEGER": "i4",
    "REAL": "f4", "DOUBLE_PRECISION": "f8", "COMPLEX": "c8", "DOUBLE_COMPLEX": "c16", "LOGICAL1": "i1",
    "LOGICAL2": "i2", "LOGICAL4": "i4", "LOGICAL8": "i8", "INTEGER1": "i1", "INTEGER2": "i2", "INTEGER4": "i4",
    "INTEGER8": "i8", "REAL2": "f2", "REAL4": "f4", "REAL8": "f8", "REAL16": "g", "COMPLEX4": None, "COMPLEX8": "c8",
    "COMPLEX16": "c16", "COMPLEX32": "G", "INTEGER16": None, "LOGICAL16": None, "X_C_FLOAT16": "f2", "X_BFLOAT16": None,
}  # fmt: skip
#: pairs of a value and an index, by the names of both
_PAIRS = {
    "FLOAT_INT": ("FLOAT", "INT"), "DOUBLE_INT": ("DOUBLE", "INT"), "LONG_INT": ("LONG", "INT"),
    "SHORT_INT": ("SHORT", "INT"), "2INT": ("INT", "INT"), "LONG_DOUBLE_INT": ("LONG_DOUBLE", "INT"),
    "2REAL": ("REAL", "REAL"), "2DOUBLE_PRECISION": ("DOUBLE_PRECISION", "DOUBLE_PRECISION"),
    "2INTEGER": ("INTEGER", "INTEGER"),
}  # fmt: skip


#: names of the ABI's that differ from those of the constants
_SPELLED = {"C_FLOAT_COMPLEX": "MPI_C_COMPLEX", "X_C_FLOAT16": "MPIX_C_FLOAT16", "X_BFLOAT16": "MPIX_BFLOAT16"}


def element(basic: Datatype) -> np.dtype | None:
    """Return numpy's dtype of a basic type; None if numpy has none."""
    return basic.dtype


def _add_basic(name: str, code: str | None) -> Datatype:
    handle = c[f"MPI{name}" if name.startswith("X_") else f"MPI_{name}"]
    size = (handle & 0xFFFF) >> 8  # MPICH has the size in the handle
    runs = one_run(size, len(BASICS))
    spelled = _SPELLED.get(name, f"MPI_{name}")
    made = Datatype(lambda: runs, size, 0, size, Contents(NAMED), alignment=_alignment(size, code), name=spelled)
    made.dtype = np.dtype(code) if code else None
    BASICS.append(made)
    DATATYPE.add(made, handle)
    return made


def _alignment(size: int, code: str | None) -> int:
    return np.dtype(code).alignment if code else min(size, 16)


BY_NAME = {name: _add_basic(name, code) for name, code in _DTYPES.items()}
#: the pairs in C, by the datatypes of value and index
PAIRS: dict[tuple[Datatype, Datatype], Datatype] = {}

for _name, (_value, _index) in _PAIRS.items():
    _first, _second = BY_NAME[_value], BY_NAME[_index]
    _place = -(-_first.size // _second.alignment) * _second.alignment
    _unit = max(_first.alignment, _second.alignment)
    _made = Datatype(
        partial(joined, [_first.runs, _second.runs.moved(_place)]),
        _first.size + _second.size,
        0,
        -(-(_place + _second.size) // _unit) * _unit,
        Contents(NAMED),
        alignment=_unit,
        name=f"MPI_{_name}",
    )
    _made.pair = _first, _second
    DATATYPE.add(_made, c[f"MPI_{_name}"])
    if _index == "INT":
        PAIRS[_first, _second] = _made
BYTE = BY_NAME["BYTE"]
