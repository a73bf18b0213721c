"""`nki.isa`, as far as kernels need it around a collective: functions that copy and fill arrays, and registers.

Kernels must not pass their own arguments to a collective, so they copy them to arrays of their own, and the results
back. Functions that compute are not here: use numpy. One program runs on each rank, so there are no other cores to wait
for. Engines and modes have names, and no effect.
"""

from enum import Enum
from typing import Any

import numpy as np

from shmcoll.nki import language
from shmcoll.nki.registers import VirtualRegister as VirtualRegister
from shmcoll.nki.registers import register_alloc as register_alloc
from shmcoll.nki.registers import register_load as register_load
from shmcoll.nki.registers import register_move as register_move
from shmcoll.nki.registers import register_store as register_store


class engine(Enum):  # NKI's name
    """The engines that would execute an instruction."""

    tensor = "tensor"
    vector = "vector"
    scalar = "scalar"
    gpsimd = "gpsimd"
    dma = "dma"
    sync = "sync"
    unknown = "unknown"


class dge_mode(Enum):  # NKI's name
    """The units that would make the descriptors of a copy."""

    none = "none"
    swdge = "swdge"
    hwdge = "hwdge"
    unknown = "unknown"


class dma_engine(Enum):  # NKI's name
    """The engines that would start a copy."""

    dma = "dma"
    gpsimd_dma = "gpsimd_dma"


class oob_mode(Enum):  # NKI's name
    """What an index out of bounds does in an indirect copy. The copies here have no indices."""

    error = "error"
    skip = "skip"


tensor_engine, vector_engine, scalar_engine = engine.tensor, engine.vector, engine.scalar
gpsimd_engine, sync_engine, unknown_engine = engine.gpsimd, engine.sync, engine.unknown


def dma_copy(
    dst: np.ndarray,
    src: np.ndarray,
    oob_mode: Any = oob_mode.error,
    dge_mode: Any = dge_mode.unknown,
    engine: Any = engine.unknown,
    name: str | None = None,
    *,
    dst_rmw_op: Any = None,
) -> None:
    """Copy the elements of an array into another one, in row-major order.

    Args:
        dst: an array of as many elements, of any shape and dtype.
        src: an array.
        oob_mode: has no effect.
        dge_mode: has no effect.
        engine: has no effect.
        name: a label, which has no effect.
        dst_rmw_op: `nl.add` to add the elements to those of `dst`, as in NKI until 2.28.

    Raises:
        TypeError: an argument is not an array, or `dst_rmw_op` is another function.
        ValueError: the arrays have different numbers of elements, or `dst` is read-only.
    """
    given = _in_shape_of(dst, src, "dma_copy")
    if dst_rmw_op is not None and dst_rmw_op is not language.add:
        raise TypeError(f"dma_copy: dst_rmw_op must be None or nl.add, got {dst_rmw_op!r}")
    dst[...] = given if dst_rmw_op is None else dst + given


def tensor_copy(dst: np.ndarray, src: np.ndarray, engine: Any = engine.tensor, name: str | None = None) -> None:
    """Copy the elements of an array into another one, as `dma_copy`.

    Args:
        dst: as for `dma_copy`.
        src: as for `dma_copy`.
        engine: has no effect.
        name: a label, which has no effect.

    Raises:
        TypeError: as for `dma_copy`.
        ValueError: as for `dma_copy`.
    """
    dst[...] = _in_shape_of(dst, src, "tensor_copy")


def memset(dst: np.ndarray, value: Any, engine: Any = engine.unknown, name: str | None = None) -> None:
    """Fill an array with a number.

    Args:
        dst: an array.
        value: the number.
        engine: has no effect.
        name: a label, which has no effect.

    Raises:
        TypeError: `dst` is not an array.
        ValueError: it is read-only.
    """
    _check_arrays("memset", dst=dst)
    _check_writable("memset", dst)
    dst[...] = value


def core_barrier(data: np.ndarray, cores: Any, engine: Any = engine.gpsimd, name: str | None = None) -> None:
    """Do nothing: one program runs on each rank. It does not synchronise ranks.

    Args:
        data: an array.
        cores: has no effect.
        engine: has no effect.
        name: a label, which has no effect.

    Raises:
        TypeError: `data` is not an array.
    """
    _check_arrays("core_barrier", data=data)


def _in_shape_of(dst: Any, src: Any, operation: str) -> np.ndarray:
    """Return the elements of `src` in the shape of `dst`."""
    _check_arrays(operation, dst=dst, src=src)
    if dst.size != src.size:
        raise ValueError(
            f"{operation}: dst has {dst.size} elements, and src {src.size}; cut the larger one, as in x[:n]"
        )
    _check_writable(operation, dst)
    shaped: np.ndarray = src.reshape(dst.shape)
    return shaped


def _check_writable(operation: str, dst: np.ndarray) -> None:
    if not dst.flags.writeable:
        raise ValueError(f"{operation}: dst is read-only; write to an array of the kernel's own, as of nl.ndarray")


def _check_arrays(operation: str, **arguments: Any) -> None:
    for name, array in arguments.items():
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{operation}: {name} must be a numpy array, got {type(array).__name__}")
