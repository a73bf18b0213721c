"""Shared arrays: numpy arrays whose memory is in the arena, in this rank's heap.

The memory is allocated when an array is made, and given back when the last array that uses it has been deleted. Each
rank makes its arrays by itself.

Views of other ranks' arrays are made together (`Communicator.views`, `shared_results.py`): each rank learns the
location of an array. Then it counts a hold on it in the words behind its block. Then all ranks meet, so that no owner
has dropped its array before it is held. A view that is deleted removes its hold. `engine/memory/holds.py` has the
protocol.
"""

import ctypes
import numbers
import operator
import os
import threading
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from shmcoll.engine import layout
from shmcoll.engine.kernels.element_marks import is_movable
from shmcoll.engine.layout import align
from shmcoll.engine.memory import holds, pages
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.heap import Heap
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.text import shown


def as_description(shape: Any, dtype: Any, operation: str, rank: int) -> np.ndarray:
    """Return an array of a shape and dtype that takes no memory. numpy itself reads the arguments.

    Raises `TypeError` for a dtype without a fixed size and for an object that is not a shape, and `ValueError` for an
    impossible shape.
    """
    where = f"{operation} on rank {rank}"
    try:
        zero = np.zeros((), dtype)
    except (TypeError, ValueError) as error:
        reraise_of_handler(error)
        raise TypeError(f"{where}: {shown(dtype)} is not a dtype: {error}") from None
    _check_dtype(zero.dtype, where)
    extents = (shape,) if isinstance(shape, numbers.Integral) else shape
    if isinstance(extents, str) or not isinstance(extents, (Iterable, np.ndarray)):
        raise TypeError(f"{where}: shape must be an integer or a sequence of integers, got {shown(shape)}")
    try:
        lengths = tuple(operator.index(length) for length in extents)
    except TypeError as error:
        reraise_of_handler(error)
        raise TypeError(f"{where}: shape must be an integer or a sequence of integers, got {shown(shape)}") from None
    if any(length < 0 for length in lengths):
        raise ValueError(f"{where}: shape {shown(shape)} has a negative length")
    try:
        return np.broadcast_to(zero, lengths)
    except (ValueError, OverflowError) as error:
        reraise_of_handler(error)
        raise ValueError(
            f"{where}: shape {shown(shape)} has more dimensions or elements than an array can have"
        ) from None


def as_filling(value: Any, dtype: Any, operation: str, rank: int) -> np.ndarray:
    """Return `value` as an array, of `dtype` if that is given. Raises `TypeError` or `ValueError` if it cannot be
    converted."""
    try:
        array = np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        reraise_of_handler(error)
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{operation} on rank {rank}: value {shown(value)} does not fit dtype {shown(dtype)}: {error}"
        ) from None
    _check_dtype(array.dtype, f"{operation} on rank {rank}")
    return array


def _check_dtype(dtype: np.dtype, where: str) -> None:
    if not is_movable(dtype):
        raise TypeError(f"{where}: elements of dtype {dtype} have no fixed size; they cannot be in shared memory")


def fill(made: np.ndarray, array: np.ndarray, operation: str, rank: int) -> None:
    """Set every element. Raises `ValueError` if `value` is an array that cannot be broadcast."""
    try:
        made[...] = array
    except ValueError:
        raise ValueError(
            f"{operation} on rank {rank}: value of shape {array.shape} does not fit shape {made.shape}"
        ) from None


def zeros(arena: Arena, heap: Heap, like: np.ndarray, purpose: str = "", *, commits: bool = True) -> np.ndarray:
    """Return a C-contiguous array of zeros in a heap, of the shape and dtype of `like`. Raises `ArenaError` if the heap
    is full. commits: without it, the ranks commit the memory together (`commit_part`)."""
    if not like.nbytes:
        return np.empty(like.shape, like.dtype)
    purpose = purpose or f"a shared array of shape {like.shape}, {like.dtype}"
    offset = heap.take(like.nbytes, purpose, holds=True, commits=None if commits else 0)
    memory = (ctypes.c_char * like.nbytes).from_address(arena.address + offset)
    weakref.finalize(memory, heap.give, offset).atexit = False
    return np.ndarray(like.shape, like.dtype, memory)  # type: ignore[arg-type]


class ArrayLocation(NamedTuple):
    """The location of a shared array: what another rank needs to view it. owner: its rank in the world. first, bytes:
    the range that it spans."""

    owner: int
    first: int
    bytes: int
    holds: int
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


def place_of(arena: Arena, heap: Heap, array: np.ndarray) -> ArrayLocation | None:
    """Return the location of an array of this rank; None if it is not in its heap."""
    if not array.nbytes:
        return ArrayLocation(heap.rank, 0, 0, 0, 0, array.shape, array.strides, array.dtype)
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    start = array.ctypes.data - arena.address
    low, high = start + sum(min(r, 0) for r in reach), start + sum(max(r, 0) for r in reach) + array.itemsize
    if not (block := heap.block_of(low)):
        return None
    first, holds = block
    return ArrayLocation(heap.rank, first, high - first, holds, start, array.shape, array.strides, array.dtype)


def view(arena: Arena, place: ArrayLocation, rank: int) -> np.ndarray:
    """Return a view of another rank's array. rank: this rank of the world, which holds the array as long as a view
    exists."""
    if not place.bytes:
        return np.empty(place.shape, place.dtype)
    memory = (ctypes.c_char * place.bytes).from_address(arena.address + place.first)
    one = object()
    weakref.finalize(memory, _let_go, arena, place, rank, one, os.getpid()).atexit = False
    with _lock:
        views = _views.setdefault((arena.address, place.holds), set())
        views.add(one)
        _tell(arena, place, rank, views)
    offset = place.start - place.first
    return np.ndarray(place.shape, place.dtype, memory, offset, place.strides)  # type: ignore[arg-type]


def commit_part(arena: Arena, place: ArrayLocation, rank: int, ranks: int, purpose: str) -> None:
    """Commit the part of rank `rank` of the memory of an array; each of `ranks` ranks commits one. The system clears
    the memory, which takes as long as a copy."""
    unit = pages.HUGE if place.bytes >= 4 * pages.HUGE * ranks else layout.PAGE
    ends = [align(place.first + place.bytes * i // ranks, unit) for i in (rank, rank + 1)]
    first = place.first if rank == 0 else min(ends[0], place.holds)
    end = place.holds if rank == ranks - 1 else min(ends[1], place.holds)
    if first < end:
        arena.commit(first, end - first, purpose)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return an array on the memory of one of `zeros` or `view`, which nobody can make writeable."""
    if not array.nbytes:
        array.flags.writeable = False
        return array
    memory = memoryview(array.base).toreadonly()  # type: ignore[arg-type]
    start = array.ctypes.data - ctypes.addressof(array.base)  # type: ignore[arg-type]
    # Not np.ndarray(buffer=memory), which keeps what is below the memoryview, and that can be written
    return np.frombuffer(memory, np.uint8, array.nbytes, start).view(array.dtype).reshape(array.shape)


def _let_go(arena: Arena, place: ArrayLocation, rank: int, one: object, pid: int) -> None:
    if os.getpid() == pid:  # in a fork of the rank the views are copies
        with _lock:
            views = _views[arena.address, place.holds]
            views.discard(one)
            _tell(arena, place, rank, views)


def _tell(arena: Arena, place: ArrayLocation, rank: int, views: set[object]) -> None:
    length = place.holds - place.first
    holds.tell(arena, place.holds, rank, place.owner, views, lambda: arena.drop(place.first, length))


#: this rank's views of each block, by the addresses of the arena and of the words behind the block
_views: dict[tuple[int, int], set[object]] = {}
_lock = threading.RLock()  # the garbage collector may delete a view while another one is counted
