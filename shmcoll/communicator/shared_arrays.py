"""Shared arrays: numpy arrays whose memory is in the arena, in this rank's heap.

The memory is allocated when an array is made, and given back when the last array that uses it has been deleted. Each
rank makes its arrays by itself.

Views of other ranks' arrays are made together (`Communicator.views`): each rank sends the location of its array. Then
it counts a hold on the other ranks' arrays in the words behind their blocks. Then all ranks meet, so that no owner has
dropped its array before it is held. A view that is deleted removes its hold.
"""

import ctypes
import numbers
import operator
import os
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shmcoll.engine.kernels.element_marks import is_movable
from shmcoll.engine.layout import WORD
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


def zeros(arena: Arena, heap: Heap, like: np.ndarray) -> np.ndarray:
    """Return a C-contiguous array of zeros in a heap, of the shape and dtype of `like`. Raises `ArenaError` if the heap
    is full."""
    if not like.nbytes:
        return np.empty(like.shape, like.dtype)
    offset = heap.take(like.nbytes, f"a shared array of shape {like.shape}, {like.dtype}", holds=True)
    memory = (ctypes.c_char * like.nbytes).from_address(arena.address + offset)
    weakref.finalize(memory, heap.give, offset).atexit = False
    return np.ndarray(like.shape, like.dtype, memory)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ArrayLocation:
    """The location of a rank's shared array: what another rank needs to view it. first, bytes: the range that it
    spans."""

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
        return ArrayLocation(0, 0, 0, 0, array.shape, array.strides, array.dtype)
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    start = array.ctypes.data - arena.address
    low, high = start + sum(min(r, 0) for r in reach), start + sum(max(r, 0) for r in reach) + array.itemsize
    block = heap.block_of(low)
    return block and ArrayLocation(block[0], high - block[0], block[1], start, array.shape, array.strides, array.dtype)


def view(arena: Arena, place: ArrayLocation, rank: int) -> np.ndarray:
    """Return a view of another rank's array. rank: this rank of the world, which holds the array as long as a view
    exists."""
    if not place.bytes:
        return np.empty(place.shape, place.dtype)
    word = place.holds + rank * WORD
    memory = (ctypes.c_char * place.bytes).from_address(arena.address + place.first)
    _count(arena, word, 1)
    weakref.finalize(memory, _let_go, arena, word, os.getpid()).atexit = False
    offset = place.start - place.first
    return np.ndarray(place.shape, place.dtype, memory, offset, place.strides)  # type: ignore[arg-type]


def _let_go(arena: Arena, word: int, pid: int) -> None:
    if os.getpid() == pid:  # in a fork of the rank the views are copies
        _count(arena, word, -1)


def _count(arena: Arena, word: int, more: int) -> None:
    with _lock:
        arena.store(word, arena.load(word) + more)


_lock = threading.RLock()  # the garbage collector may delete a view while another one is counted
