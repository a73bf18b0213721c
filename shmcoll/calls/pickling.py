"""Objects as bytes: their pickle, and the memory that the pickle leaves out.

An object is its pickle and its buffers. The buffers are the contiguous memory of arrays and similar objects from 16 KiB
on, in collectives from 96 KiB on, which pickle's protocol 5 leaves out (PEP 574). They are moved without a copy by
pickle, and the receiver's object is built around the memory in which they arrive. An object that is an array of numpy
itself is one buffer in collectives as soon as its pickle would not fit into a row (`object_rows.py`), and one of
`bytes` from 64 KiB on. A frame is the number of the buffers, their lengths, and the pickle.

In a message the frame and the buffers follow one another, each from a multiple of 64 bytes on. The sender describes
them in a table (see `engine/messages/send.py`). A short object without buffers is sent as it is.

Pickles are code. These come from ranks of the same job, that is, from processes of the same user.
"""

import copyreg
import pickle
import struct
from collections.abc import Sequence
from pickle import dumps, loads
from typing import Any, TypeAlias

import numpy as np

from shmcoll.engine.layout import WORD, align
from shmcoll.engine.messages.ring_buffers import SEGMENTS, WHOLE
from shmcoll.engine.system.bytes_memory import address_of_bytes
from shmcoll.engine.system.handlers import reraise_of_handler


class Made:
    """In place of a pickle, an object that has been made already."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


Packed: TypeAlias = tuple[bytes, Sequence[np.ndarray]]  # a pickle and its buffers
#: the same in memory that has arrived; a pickle alone, if there are no buffers; or what has been made of it
Received: TypeAlias = bytes | memoryview | Made | tuple[bytes | memoryview, Sequence[np.ndarray]]

PLAIN = frozenset(
    (int, float, complex, bool, str, bytes, type(None))
)  # nothing can be left out of their pickles, and they do not change
LEAST_BUFFER = 16 << 10  # bytes; shorter ones are pickled with the rest
LEAST_MOVED = 96 << 10  # in collectives, where buffers take more parts
LEAST_ALONE = 512  # in collectives, of an array that is the whole object
LEAST_BYTES = 64 << 10  # of `bytes` that are the whole object: pickle copies shorter ones in less time
ALIGNED = 64  # alignment of buffers that arrive side by side, so that arrays in them are aligned

BYTES_OF_BUFFER = b"\x80\x05cbuiltins\nbytes\n\x97\x85R."  # the pickle of `bytes(buffer)`
_NO_BUFFERS = bytes(WORD)  # the frame of a pickle without buffers begins with it
_NUMBERS = frozenset("?bBhHiIlLqQefdgFDG")  # dtypes whose arrays of one shape have one pickle
_MOST_SHAPES = 256
_of_shapes: dict[tuple[str, tuple[int, ...]], bytes] = {}  # these pickles
_shapes: dict[bytes, tuple[str, tuple[int, ...]]] = {}  # the other way


def packed(value: Any, operation: str, rank: int, least: int = LEAST_MOVED, alone: int = LEAST_ALONE) -> Packed:
    """Return the pickle of an object, and the memory of its buffers of at least `least` bytes, or `alone` if the object
    is an array itself. Raises `TypeError` if it cannot be pickled."""
    kind = type(value)
    if kind in PLAIN:  # in half the time
        if kind is bytes and len(value) >= LEAST_BYTES:
            return BYTES_OF_BUFFER, [np.frombuffer(value, np.uint8)]
        return dumps(value, 5), ()
    if kind is np.ndarray and value.nbytes >= alone:
        if data := _of_shape(value):
            return data, [np.frombuffer(value, np.uint8)]
        least = alone
    buffers: list[np.ndarray] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        memory = buffer.raw()
        if memory.nbytes >= least:
            buffers.append(np.frombuffer(memory, np.uint8))
        return memory.nbytes < least

    try:
        return dumps(value, 5, buffer_callback=stays), buffers
    except Exception as e:
        reraise_of_handler(e)
        raise TypeError(
            f"{operation} on rank {rank}: a {type(value).__name__} cannot be pickled: {type(e).__name__}: {e}"
        ) from e


def _of_shape(array: np.ndarray) -> bytes | None:
    """Return the pickle of an array without its memory, if it is that of every array of this shape and dtype. numpy
    takes 4 us to make it."""
    dtype = array.dtype
    if dtype.char not in _NUMBERS or not dtype.isnative or dtype.metadata or not array.flags.carray:
        return None
    if np.ndarray in copyreg.dispatch_table:  # the user's own way to pickle it
        return None
    key = dtype.char, array.shape
    if not (data := _of_shapes.get(key)):
        if len(_of_shapes) >= _MOST_SHAPES:
            _of_shapes.clear()
            _shapes.clear()
        data = _of_shapes[key] = dumps(array, 5, buffer_callback=lambda _: False)
        _shapes[data] = key
    return data


def framed(data: bytes, buffers: Sequence[np.ndarray]) -> bytes:
    """Return the frame of an object."""
    return struct.pack(f"={1 + len(buffers)}q", len(buffers), *(buffer.size for buffer in buffers)) + data


def of_frame(frame: np.ndarray) -> tuple[memoryview, tuple[int, ...]]:
    """Return the pickle of a frame, and the length of each buffer in bytes."""
    memory = frame.data
    (count,) = struct.unpack_from("=q", memory)
    sizes = struct.unpack_from(f"={count}q", memory, WORD) if count else ()
    return memory[(1 + count) * WORD :], sizes


def loaded(one: Received) -> Any:
    """Return the object of a pickle and its buffers, whose memory it keeps."""
    if isinstance(one, Made):
        return one.value
    if not isinstance(one, tuple):
        return loads(one)
    data, buffers = one
    if type(data) is bytes:  # else it cannot be found
        if data == BYTES_OF_BUFFER:  # pickle takes 2 us more
            return bytes(buffers[0])
        if shape := _shapes.get(data):  # likewise
            return np.ndarray(shape[1], shape[0], buffers[0])
    return loads(data, buffers=buffers)


def as_message(value: Any, operation: str, rank: int) -> tuple[np.ndarray, int, Sequence[Any]]:
    """Return an object as `engine/messages/send.py` reads it: an array, its form, and the objects to keep until it is
    sent."""
    data, buffers = packed(value, operation, rank, LEAST_BUFFER, LEAST_BUFFER)
    if not buffers and len(data) < LEAST_BUFFER:
        return np.frombuffer(_NO_BUFFERS + data, np.uint8), WHOLE, ()
    head = framed(b"", buffers)
    end = len(head) + len(data)
    rows = [0, address_of_bytes(head), len(head), len(head), address_of_bytes(data), len(data)]
    for part in buffers:
        begin = -(-end // ALIGNED) * ALIGNED
        rows += begin, part.__array_interface__["data"][0], part.size
        end = begin + part.size
    table = struct.pack(f"={len(rows) + 3}q", *rows, -(-end // ALIGNED) * ALIGNED, 0, 0)
    return np.frombuffer(table, np.int64).reshape(-1, 3), SEGMENTS, (head, data, buffers)


def of_short_message(memory: np.ndarray) -> Any:
    """Return the object of a message without buffers, in memory that may go on behind it."""
    return loads(memory.data[WORD:])


def of_message(memory: np.ndarray) -> Any:
    """Return the object that arrived as a message. It keeps this memory if it has buffers."""
    data, sizes = of_frame(memory)
    begin, buffers = memory.size - sum(align(size, ALIGNED) for size in sizes), []
    for size in sizes:
        buffers.append(memory[begin : begin + size])
        begin += align(size, ALIGNED)
    return loaded((data, buffers))
