"""Operators of reductions.

A predefined operator on a type that the engine knows is the engine's. Everything else is folded here: elements of all
ranks are combined in the order of the ranks, by numpy, or by the program's function as MPI calls it. In the order of
the ranks, so that operators that do not commute are right.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.engine.kernels.dtypes import BY_NUMPY, DTYPES, REDUCTIONS
from shmcoll.engine.native import mpi_table
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.datatypes import Datatype, element
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.handles import OP

_FUNCTION = ctypes.CFUNCTYPE(
    None, ctypes.c_size_t, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
)
_LARGE_FUNCTION = ctypes.CFUNCTYPE(
    None, ctypes.c_size_t, ctypes.c_size_t, ctypes.POINTER(ctypes.c_longlong), ctypes.POINTER(ctypes.c_int)
)

#: by the name of the operator: the engine's name, numpy's function, and the kinds of dtypes for which it is defined
_KNOWN: dict[str, tuple[str, Callable[..., Any] | None, str]] = {
    "MPI_MAX": ("max", np.maximum, "iuf"),
    "MPI_MIN": ("min", np.minimum, "iuf"),
    "MPI_SUM": ("sum", np.add, "iufc"),
    "MPI_PROD": ("prod", np.multiply, "iufc"),
    "MPI_LAND": ("land", np.logical_and, "iub"),
    "MPI_BAND": ("band", np.bitwise_and, "iu"),
    "MPI_LOR": ("lor", np.logical_or, "iub"),
    "MPI_BOR": ("bor", np.bitwise_or, "iu"),
    "MPI_LXOR": ("lxor", np.logical_xor, "iub"),
    "MPI_BXOR": ("bxor", np.bitwise_xor, "iu"),
    "MPI_MINLOC": ("", None, ""),
    "MPI_MAXLOC": ("", None, ""),
    "MPI_REPLACE": ("", None, ""),
    "MPI_NO_OP": ("", None, ""),
}

_OF_WINDOWS = {"MPI_REPLACE": mpi_table.REPLACE, "MPI_NO_OP": mpi_table.NO_OP}


class Operator:
    """An operator. address: of the program's function; 0 for those of MPI."""

    handle = OP.null

    def __init__(self, name: str = "", *, address: int = 0, commutes: bool = True, is_large: bool = False):
        self.name = name
        self.commutes = commutes
        self._function = (_LARGE_FUNCTION if is_large else _FUNCTION)(address) if address else None
        self._length: Any = ctypes.c_longlong if is_large else ctypes.c_int

    @property
    def is_predefined(self) -> bool:
        return self._function is None

    def native_row(self) -> tuple[int, ...] | None:
        """Return what native functions need; None for those that neither they nor the engine have."""
        if self.name in _OF_WINDOWS:
            return (_OF_WINDOWS[self.name], 0)
        name, _, kinds = _KNOWN[self.name] if self.is_predefined else ("", None, "")
        dtypes = sum(1 << one.code for one in DTYPES if one.numpy.kind in kinds)
        return (REDUCTIONS[name], dtypes) if name else None

    def of_engine(self, datatype: Datatype) -> tuple[str, np.dtype] | None:
        """Return the engine's name of the operator, and the dtype; None if the engine has not both.

        Raises:
            MPIError: MPI does not define the operator for this datatype.
        """
        if self._function is not None:
            return None
        name, _, kinds = _KNOWN[self.name]
        basic = datatype.basic
        dtype = element(basic) if basic else None
        if not name:
            return None
        if dtype is None or (dtype.kind not in kinds and not (basic and basic.name == "MPI_BYTE")):
            raise MPIError("MPI_ERR_OP", f"{self.name} is not defined for {datatype.in_words}")
        return (name, dtype) if dtype in BY_NUMPY else None

    def combine(self, first: Buffer, second: Buffer) -> None:
        """Store `first op second`, element by element, in `second`."""
        if self._function is not None:
            length, handle = self._length(first.count), ctypes.c_int(first.datatype.handle)
            self._function(first.address, second.address, ctypes.byref(length), ctypes.byref(handle))
        else:
            self.combine_packed(first.packed(), second)

    def combine_packed(self, first: np.ndarray, second: Buffer) -> None:
        """Do the same with the packed bytes of as many elements, by an operator of MPI."""
        if self.name == "MPI_REPLACE":
            second.fill_from(first)
        elif self.name in ("MPI_MINLOC", "MPI_MAXLOC"):
            second.fill_from(_located(self.name, first, second))
        elif self.name != "MPI_NO_OP":
            function = _KNOWN[self.name][1]
            assert function is not None
            packed = second.packed()
            stored = second.typed(packed)
            with np.errstate(all="ignore"):  # MPI warns of nothing
                function(second.typed(first), stored, out=stored, casting="unsafe")
            second.fill(packed)


def _located(name: str, first: np.ndarray, second: Buffer) -> np.ndarray:
    """Return pairs of a value and its index: the lowest index of equal values."""
    dtype = _pair(second.datatype)
    a, b = first.view(dtype), second.packed().view(dtype)
    better = np.less if name == "MPI_MINLOC" else np.greater
    chosen = better(a["value"], b["value"]) | ((a["value"] == b["value"]) & (a["index"] <= b["index"]))
    return np.where(chosen, a, b).view(np.uint8)


def _pair(datatype: Datatype) -> np.dtype:
    """Return the dtype of packed pairs.

    Raises:
        MPIError: the datatype is not one of pairs.
    """
    if datatype.pair is None:
        raise MPIError("MPI_ERR_OP", f"{datatype.in_words} is not a datatype of values and indices")
    value, index = (element(one) for one in datatype.pair)
    return np.dtype([("value", value), ("index", index)])


for _name in _KNOWN:
    OP.add(Operator(_name), c[_name])
