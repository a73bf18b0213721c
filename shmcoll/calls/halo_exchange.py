"""halo_exchange: its arguments and its call."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.array_rules import check_unmasked
from shmcoll.calls.arrays import exact, product
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.kernels.element_marks import element_mark
from shmcoll.engine.layout import HEADER_MAX_DIMS
from shmcoll.engine.native.entry_counts import mark_of
from shmcoll.runtime.dispatcher import Dispatcher


def halo_exchange(
    dispatcher: Dispatcher, x: Any, width: Any, axes: Any, dims: tuple[int, ...], periods: tuple[bool, ...]
) -> np.ndarray:
    """Fill the halo of x on a grid of `dims` ranks, periodic along the axes where `periods` is true."""
    arguments, _table = checked(dispatcher, x, width, axes, dims, periods)
    array = exact(x.view(given.native(x.dtype)))
    dispatcher.run("halo_exchange", array, array, *arguments)
    return x


def checked(
    dispatcher: Dispatcher, x: Any, width: Any, axes: Any, dims: tuple[int, ...], periods: tuple[bool, ...]
) -> tuple[tuple[int, ...], np.ndarray]:
    """Return what the native entry takes behind the arrays, and the table whose address is in it."""
    with dispatcher.checking("halo_exchange") as check:
        _check_array(x, *check)
        width = given.as_index(width, "width", *check)
        axes = _as_axes(axes, x.ndim, len(dims), *check)
        _check_extents(x.shape, width, axes, *check)
    rows = [(axis, dims[i], product(dims[i + 1 :]), int(periods[i])) for i, axis in enumerate(axes)]
    table = np.array([*rows, (x.ndim, element_mark(x.dtype), 0, 0)], np.int64)  # the last row is only hashed
    mark = mark_of(table.ctypes.data, table.size)
    return (0, mark, width, 0, len(dims), table.ctypes.data), table


def _check_array(x: Any, operation: str, rank: int) -> None:
    where = f"{operation} on rank {rank}"
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{where}: x must be a numpy array, whose halo is written; got {type(x).__name__}")
    check_unmasked(x, "x", operation, rank)
    if not x.flags.writeable:
        raise ValueError(f"{where}: x is read-only")
    if not (x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative):
        raise ValueError(
            f"{where}: x must be C-contiguous, aligned and in native byte order, as its halo is written in place"
        )
    given.check_movable(x, "x", operation, rank)
    most = HEADER_MAX_DIMS - (x.dtype not in BY_NUMPY)  # bytes of another dtype have one more dimension
    if x.ndim > most:
        raise ValueError(f"{where}: x has {x.ndim} dimensions, at most {most} are possible of dtype {x.dtype}")


def _as_axes(axes: Any, ndim: int, wanted: int, operation: str, rank: int) -> Sequence[int]:
    """Return the axis of x for each axis of the grid."""
    where = f"{operation} on rank {rank}"
    if axes is None:
        if ndim < wanted:
            raise ValueError(f"{where}: x has {ndim} dimensions, fewer than the {wanted} axes of the grid")
        return range(wanted)
    given_axes = list(axes) if isinstance(axes, (tuple, list)) else [axes]
    found = [given.as_axis(axis, "axis", ndim, operation, rank) for axis in given_axes]
    if len(found) != wanted or len(set(found)) != wanted:
        raise ValueError(f"{where}: axes {axes} must be {wanted} different ones, one for each axis of the grid")
    return found


def _check_extents(shape: tuple[int, ...], width: int, axes: Sequence[int], operation: str, rank: int) -> None:
    where = f"{operation} on rank {rank}"
    if width < 1:
        raise ValueError(f"{where}: width must be at least 1, got {width}")
    for axis in axes:
        if shape[axis] < 3 * width:
            raise ValueError(
                f"{where}: axis {axis} of length {shape[axis]} is too short for a halo of width {width} on both sides "
                f"and as much between them; shape {shape}"
            )
