"""Objects as bytes: their pickle, and the memory that the pickle leaves out.

An object is a frame and its buffers. The frame holds the lengths of the buffers and the pickle. The buffers are the
contiguous memory of arrays and similar objects from 16 KiB on, which pickle's protocol 5 leaves out (PEP 574). They are
moved without a copy by pickle, and the receiver's object is built around the memory in which they arrive.

In a message the frame and the buffers follow one another, each from a multiple of 64 bytes on. The sender describes
them in a table (see `engine/messages/send.py`). A short object without buffers is sent as it is.

Pickles are code. These come from ranks of the same job, that is, from processes of the same user.
"""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.engine.layout import WORD, align
from shmcoll.engine.messages.ring_buffers import SEGMENTS, WHOLE
from shmcoll.engine.system.handlers import reraise_of_handler

LEAST_BUFFER = 16 << 10  # bytes; shorter ones are pickled with the rest
ALIGNED = 64  # alignment of buffers that arrive side by side, so that arrays in them are aligned


def packed(value: Any, operation: str, rank: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the frame of an object, and the memory of its buffers. Raises `TypeError` if it cannot be pickled."""
    head, data, buffers = _pickled(value, operation, rank)
    return np.frombuffer(head.tobytes() + data, np.uint8), buffers


def unpacked(frame: np.ndarray, buffers: Sequence[np.ndarray]) -> Any:
    """Return the object of a frame and its buffers, behind which there may be more buffers. It keeps their memory."""
    frame = frame.copy() if frame.ctypes.data % WORD else frame
    count = len(lengths(frame))
    return pickle.loads(frame[(1 + count) * WORD :].data, buffers=buffers[:count])


def lengths(frame: np.ndarray) -> list[int]:
    """Return the length of each buffer of a frame, in bytes."""
    count = int(frame[:WORD].view(np.int64)[0])
    return frame[WORD:][: count * WORD].view(np.int64).tolist()


def as_message(value: Any, operation: str, rank: int) -> tuple[np.ndarray, int, list[np.ndarray]]:
    """Return an object as `engine/messages/send.py` reads it: an array, its form, and the objects to keep until it is
    sent."""
    head, data, buffers = _pickled(value, operation, rank)
    if not buffers and len(data) < LEAST_BUFFER:
        return np.frombuffer(head.tobytes() + data, np.uint8), WHOLE, []
    frame = [head.view(np.uint8), np.frombuffer(data, np.uint8)]
    rows, end = [], 0
    for part in [*frame, *buffers]:
        begin = end if part is frame[1] else align(end, ALIGNED)
        rows.append((begin, part.ctypes.data, part.size))
        end = begin + part.size
    return np.array([*rows, (align(end, ALIGNED), 0, 0)], np.int64), SEGMENTS, [*frame, *buffers]


def as_block(value: Any, operation: str, rank: int) -> np.ndarray:
    """Return the bytes of an object in one run, as `of_message` reads them. Blocks one behind the other are aligned."""
    array, form, kept = as_message(value, operation, rank)
    if form == WHOLE:
        rows, kept = np.array([(0, 0, array.size)]), [array]
        end = align(array.size, ALIGNED)
    else:
        rows, end = array[:-1], int(array[-1, 0])
    block = np.zeros(end, np.uint8)
    for (begin, _, size), part in zip(rows.tolist(), kept, strict=True):
        block[begin : begin + size] = part
    return block


def of_message(memory: np.ndarray) -> Any:
    """Return the object that arrived as a message. It keeps this memory if it has buffers."""
    sizes = lengths(memory)
    begin, buffers = memory.size - sum(align(size, ALIGNED) for size in sizes), []
    for size in sizes:
        buffers.append(memory[begin : begin + size])
        begin += align(size, ALIGNED)
    return unpacked(memory, buffers)


def _pickled(value: Any, operation: str, rank: int) -> tuple[np.ndarray, bytes, list[np.ndarray]]:
    """Return the number of the buffers and their lengths, the pickle, and the buffers."""
    buffers: list[np.ndarray] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        memory = buffer.raw()
        if memory.nbytes >= LEAST_BUFFER:
            buffers.append(np.frombuffer(memory, np.uint8))
        return memory.nbytes < LEAST_BUFFER

    try:
        data = pickle.dumps(value, protocol=5, buffer_callback=stays)
    except Exception as e:
        reraise_of_handler(e)
        raise TypeError(
            f"{operation} on rank {rank}: a {type(value).__name__} cannot be pickled: {type(e).__name__}: {e}"
        ) from e
    return np.array([len(buffers), *(buffer.size for buffer in buffers)], np.int64), data, buffers
