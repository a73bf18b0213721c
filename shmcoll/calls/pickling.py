"""Objects as bytes: their pickle, and the memory that the pickle leaves out.

An object is its pickle and its buffers. The buffers are the contiguous memory of arrays and similar objects from 16 KiB
on, in collectives from 96 KiB on, which pickle's protocol 5 leaves out (PEP 574). They are moved without a copy by
pickle, and the receiver's object is built around the memory in which they arrive. A frame is the number of the buffers,
their lengths, and the pickle.

In a message the frame and the buffers follow one another, each from a multiple of 64 bytes on. The sender describes
them in a table (see `engine/messages/send.py`). A short object without buffers is sent as it is.

Pickles are code. These come from ranks of the same job, that is, from processes of the same user.
"""

import pickle
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from shmcoll.engine.layout import WORD, align
from shmcoll.engine.messages.ring_buffers import SEGMENTS, WHOLE
from shmcoll.engine.system.handlers import reraise_of_handler

Packed: TypeAlias = tuple[bytes, list[np.ndarray]]  # a pickle and its buffers
#: the same in memory that has arrived; a pickle alone, if there are no buffers
Received: TypeAlias = bytes | memoryview | tuple[memoryview, Sequence[np.ndarray]]

_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))  # their pickles leave nothing out
LEAST_BUFFER = 16 << 10  # bytes; shorter ones are pickled with the rest
LEAST_MOVED = 96 << 10  # in collectives, where buffers take more parts
ALIGNED = 64  # alignment of buffers that arrive side by side, so that arrays in them are aligned


def packed(value: Any, operation: str, rank: int, least: int = LEAST_MOVED) -> Packed:
    """Return the pickle of an object, and the memory of its buffers of at least so many bytes. Raises `TypeError` if it
    cannot be pickled."""
    if type(value) in _PLAIN:  # in half the time
        return pickle.dumps(value, 5), []
    buffers: list[np.ndarray] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        memory = buffer.raw()
        if memory.nbytes >= least:
            buffers.append(np.frombuffer(memory, np.uint8))
        return memory.nbytes < least

    try:
        return pickle.dumps(value, 5, buffer_callback=stays), buffers
    except Exception as e:
        reraise_of_handler(e)
        raise TypeError(
            f"{operation} on rank {rank}: a {type(value).__name__} cannot be pickled: {type(e).__name__}: {e}"
        ) from e


def framed(data: bytes, buffers: Sequence[np.ndarray]) -> bytes:
    """Return the frame of an object."""
    return struct.pack(f"={1 + len(buffers)}q", len(buffers), *(buffer.size for buffer in buffers)) + data


def lengths(frame: np.ndarray) -> tuple[int, ...]:
    """Return the length of each buffer of a frame, in bytes."""
    memory = frame.data
    (count,) = struct.unpack_from("=q", memory)
    return struct.unpack_from(f"={count}q", memory, WORD) if count else ()


def unpacked(frame: np.ndarray, buffers: Sequence[np.ndarray]) -> Received:
    """Return the pickle of a frame, and its buffers, behind which there may be more buffers."""
    count = len(lengths(frame))
    return frame.data[(1 + count) * WORD :], buffers[:count]


def loaded(one: Received) -> Any:
    """Return the object of a pickle and its buffers, whose memory it keeps."""
    return pickle.loads(one[0], buffers=one[1]) if isinstance(one, tuple) else pickle.loads(one)


def as_message(value: Any, operation: str, rank: int) -> tuple[np.ndarray, int, list[np.ndarray]]:
    """Return an object as `engine/messages/send.py` reads it: an array, its form, and the objects to keep until it is
    sent."""
    data, buffers = packed(value, operation, rank, LEAST_BUFFER)
    if not buffers and len(data) < LEAST_BUFFER:
        return np.frombuffer(framed(data, ()), np.uint8), WHOLE, []
    frame = [np.frombuffer(one, np.uint8) for one in (framed(b"", buffers), data)]
    rows, end = [], 0
    for part in [*frame, *buffers]:
        begin = end if part is frame[1] else align(end, ALIGNED)
        rows.append((begin, part.ctypes.data, part.size))
        end = begin + part.size
    return np.array([*rows, (align(end, ALIGNED), 0, 0)], np.int64), SEGMENTS, [*frame, *buffers]


def as_block(data: bytes, buffers: Sequence[np.ndarray]) -> np.ndarray:
    """Return the bytes of an object in one run, as `of_block` reads them. Blocks one behind the other are aligned."""
    parts = [np.frombuffer(framed(data, buffers), np.uint8), *buffers]
    block, end = np.zeros(sum(align(part.size, ALIGNED) for part in parts), np.uint8), 0
    for part in parts:
        block[end : end + part.size] = part
        end += align(part.size, ALIGNED)
    return block


def of_block(memory: np.ndarray) -> Received:
    """Return the pickle and the buffers of an object that arrived in one run of bytes."""
    sizes = lengths(memory)
    begin, buffers = memory.size - sum(align(size, ALIGNED) for size in sizes), []
    for size in sizes:
        buffers.append(memory[begin : begin + size])
        begin += align(size, ALIGNED)
    return unpacked(memory, buffers)


def of_message(memory: np.ndarray) -> Any:
    """Return the object that arrived as a message. It keeps this memory if it has buffers."""
    return loaded(of_block(memory))
