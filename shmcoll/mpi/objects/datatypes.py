"""Datatypes: which bytes, from an address on, belong to an element.

A datatype is a list of contiguous runs of bytes, in the order in which they are packed, computed once when it is made.
Each run holds elements of one basic type. Neighbours of one basic type become one run, so a contiguous datatype has
one, and its data go as they are, without packing.

Cost of making one: O(runs of the result) with numpy. Cost of packing n elements: O(n * runs) copies in native code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.attributes import Attributes
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.handles import DATATYPE

NAMED = c["MPI_COMBINER_NAMED"]


class Contents(NamedTuple):
    """How a datatype was made, for `MPI_Type_get_contents`."""

    combiner: int
    integers: Sequence[int] = ()
    addresses: Sequence[int] = ()
    types: Sequence["Datatype"] = ()
    counts: Sequence[int] = ()  # large ones, of the forms with MPI_Count


@dataclass(frozen=True)
class Runs:
    """Contiguous runs of bytes. basics: the number of each run's basic type in `BASICS`."""

    offsets: np.ndarray
    lengths: np.ndarray
    basics: np.ndarray

    @property
    def bytes(self) -> int:
        return int(self.lengths.sum())

    def moved(self, by: int) -> "Runs":
        return Runs(self.offsets + by, self.lengths, self.basics)

    def repeated(self, displacements: np.ndarray) -> "Runs":
        """Return these runs once for each displacement."""
        n = len(displacements)
        offsets = (displacements[:, None] + self.offsets[None, :]).ravel()
        return Runs(offsets, np.tile(self.lengths, n), np.tile(self.basics, n)).merged()

    def merged(self) -> "Runs":
        """Join each run to the one before it, where that ends where it begins and has the same basic type."""
        some = self.lengths > 0
        offsets, lengths, basics = self.offsets[some], self.lengths[some], self.basics[some]
        if len(offsets) < 2:
            return Runs(offsets, lengths, basics)
        joins = (offsets[1:] == offsets[:-1] + lengths[:-1]) & (basics[1:] == basics[:-1])
        firsts = np.flatnonzero(np.concatenate(([True], ~joins)))
        return Runs(offsets[firsts], np.add.reduceat(lengths, firsts), basics[firsts])


def joined(parts: Sequence[Runs]) -> Runs:
    """Return the runs of several, one after the other."""
    if not parts:
        return NO_RUNS
    fields = (np.concatenate([getattr(one, name) for one in parts]) for name in ("offsets", "lengths", "basics"))
    return Runs(*fields).merged()


NO_RUNS = Runs(*(np.zeros(0, np.int64) for _ in range(3)))


class Datatype:
    """A datatype. lb and extent: as the standard has them; the true ones follow from the runs."""

    handle = DATATYPE.null

    def __init__(self, runs: Runs, lb: int, extent: int, contents: Contents, *, alignment: int = 1, name: str = ""):
        self.runs = runs
        self.size = runs.bytes
        self.lb, self.extent = lb, extent
        self.alignment = alignment
        self.contents = contents
        self.is_committed = contents.combiner == NAMED
        self.name = name
        self.attributes = Attributes()
        self.pair: tuple[Datatype, Datatype] | None = None  # of a value and an index

    @property
    def is_named(self) -> bool:
        return self.contents.combiner == NAMED

    @property
    def true_lb(self) -> int:
        return int(self.runs.offsets.min()) if len(self.runs.offsets) else 0

    @property
    def true_ub(self) -> int:
        return int((self.runs.offsets + self.runs.lengths).max()) if len(self.runs.offsets) else 0

    @property
    def is_contiguous(self) -> bool:
        """Whether elements one behind the other are one run from the address on."""
        return self.size == self.extent and len(self.runs.offsets) <= 1 and (not self.size or self.true_lb == 0)

    @property
    def basic(self) -> "Datatype | None":
        """The basic type of all runs; None if there are several or none."""
        kinds = np.unique(self.runs.basics)
        return BASICS[kinds[0]] if len(kinds) == 1 else None

    def span(self, count: int) -> tuple[int, int]:
        """Return from where to where, relative to the address, bytes of so many elements lie."""
        last = (count - 1) * self.extent
        return self.true_lb + min(last, 0), self.true_ub + max(last, 0)

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
    "COMPLEX16": "c16", "COMPLEX32": "G",
}  # fmt: skip
#: pairs of a value and an index, by the names of both
_PAIRS = {
    "FLOAT_INT": ("FLOAT", "INT"), "DOUBLE_INT": ("DOUBLE", "INT"), "LONG_INT": ("LONG", "INT"),
    "SHORT_INT": ("SHORT", "INT"), "2INT": ("INT", "INT"), "LONG_DOUBLE_INT": ("LONG_DOUBLE", "INT"),
    "2REAL": ("REAL", "REAL"), "2DOUBLE_PRECISION": ("DOUBLE_PRECISION", "DOUBLE_PRECISION"),
    "2INTEGER": ("INTEGER", "INTEGER"),
}  # fmt: skip


def element(basic: "Datatype") -> np.dtype | None:
    """Return numpy's dtype of a basic type; None if numpy has none."""
    code = _DTYPES.get(basic.name.removeprefix("MPI_"))
    return np.dtype(code) if code else None


def _add_basic(name: str) -> Datatype:
    handle = c[f"MPI_{name}"]
    size = (handle & 0xFFFF) >> 8  # MPICH has the size in the handle
    runs = Runs(*(np.array([value], np.int64) for value in (0, size, len(BASICS))))
    made = Datatype(runs, 0, size, Contents(NAMED), alignment=min(size, 16), name=f"MPI_{name}")
    BASICS.append(made)
    DATATYPE.add(made, handle)
    return made


_by_name = {name: _add_basic(name) for name in _DTYPES}
for _name, (_value, _index) in _PAIRS.items():
    _first, _second = _by_name[_value], _by_name[_index]
    _place = -(-_first.size // _second.alignment) * _second.alignment
    _unit = max(_first.alignment, _second.alignment)
    _made = Datatype(
        joined([_first.runs, _second.runs.moved(_place)]),
        0,
        -(-(_place + _second.size) // _unit) * _unit,
        Contents(NAMED),
        alignment=_unit,
        name=f"MPI_{_name}",
    )
    _made.pair = _first, _second
    DATATYPE.add(_made, c[f"MPI_{_name}"])
BYTE = _by_name["BYTE"]
