"""A message of another node: what its head says, and its bytes. `native/message_words.py` has the format."""

import math
from typing import Any

import numpy as np

from shmcoll.calls.probe import Envelope
from shmcoll.calls.recv import part_of
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.layout import WORD
from shmcoll.engine.messages.foreign_arrays import described
from shmcoll.engine.messages.ring_buffers import FOREIGN_TYPE
from shmcoll.nodes.mpi.wire import as_bytes
from shmcoll.nodes.point_to_point.message_words import (
    CODE_SHIFT,
    DIMENSIONS_SHIFT,
    INLINE_BYTES,
    OBJECT_CODE,
    SHAPE,
    code_in,
    dimensions_in,
    head_bytes,
    tag_in,
)
from shmcoll.runtime.posted_receive import PostedReceive

HEAD_WORDS = SHAPE // WORD  # before the shape


class Head:
    """What a head says. words: of a message that begins with it."""

    def __init__(self, words: memoryview):
        self._words = words
        kind, self.number = words[0], words[1]
        self.tag, self.code = tag_in(kind), code_in(kind)
        self._dims = tuple(words[HEAD_WORDS : HEAD_WORDS + dimensions_in(kind)])
        self.dtype, self.shape = self._array()

    @property
    def is_object(self) -> bool:
        return self.code == OBJECT_CODE

    def _array(self) -> tuple[np.dtype, tuple[int, ...]]:
        if self.code == FOREIGN_TYPE:
            return described(self._dims)
        return np.dtype(np.uint8) if self.is_object else BY_CODE[self.code].numpy, self._dims

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.count * self.dtype.itemsize

    @property
    def is_whole(self) -> bool:
        """Whether the bytes come with the head."""
        return self.bytes <= INLINE_BYTES

    @property
    def message_bytes(self) -> int:
        """The length of the message of MPI that has the head."""
        return int(head_bytes(len(self._dims), self.bytes)) + (self.bytes if self.is_whole else 0)

    @property
    def asked(self) -> int:
        """The number by which the sender asks whether this rank is ready for the bytes; 0 if it does not."""
        return 0 if self.is_whole else self._words[HEAD_WORDS + len(self._dims)]

    @property
    def wants_receipt(self) -> bool:
        return self.number != 0


class UnexpectedMessage(Head):
    """A message whose head has come from a rank. data: the message of MPI with the head."""

    def __init__(self, source: int, data: np.ndarray):
        super().__init__(words_of(data))
        self.source = source
        self._data = data
        self.target: np.ndarray | None = None  # to which the bytes come that follow
        self.requests: list[Any] = []  # for these
        self.receive: PostedReceive | None = None  # that gets the message
        self.begun = 0.0  # when it got it

    def aim(self, place: np.ndarray | None) -> np.ndarray:
        """Choose where the bytes come to that follow: to the beginning of an array, or to a new one. Returns that
        memory."""
        self.target = np.empty(self.shape, self.dtype) if place is None else part_of(place, self.count)
        return as_bytes(self.target)

    @property
    def memory(self) -> np.ndarray:
        """The bytes of the message, once all have come."""
        if self.target is not None:
            return as_bytes(self.target)
        begin = head_bytes(len(self._dims), 0)
        return self._data[begin : begin + self.bytes]

    @property
    def envelope(self) -> Envelope:
        return Envelope(self.source, self.tag, None if self.is_object else self.dtype, self.shape)

    def array(self) -> np.ndarray:
        """Return what has come, once all of it has, as an array of its own."""
        if self.target is not None:
            return self.target
        made = np.empty(self.shape, self.dtype)
        as_bytes(made)[:] = self.memory
        return made


def words_of(data: np.ndarray) -> memoryview:
    """Return the words at the beginning of a message of MPI."""
    return data[: data.size // WORD * WORD].data.cast("q")


def head(tag: int, code: int, shape: tuple[int, ...], number: int) -> np.ndarray:
    """Return the bytes of a head whose sender does not ask whether the receiver is ready. code: of the dtype, or
    OBJECT_CODE. number: 0 if no receipt is wanted."""
    words = [tag | code << CODE_SHIFT | len(shape) << DIMENSIONS_SHIFT, number, *shape]
    asked = [] if Head(np.array([*words, 0], np.int64).data).is_whole else [0]
    return np.array([*words, *asked], np.int64).view(np.uint8)
