"""A rank's messages as plain Python sees them: the memory of its rings, and what the routines note beside them.

The routines ask for memory and say in WANTED how much; see `engine/messages/ring_buffers.py`.
"""

import math
import os
from collections.abc import Callable
from itertools import count

import numpy as np

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_CODE, BY_NUMPY
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.heap import Heap
from shmcoll.engine.messages import ring_buffers
from shmcoll.engine.messages.foreign_arrays import described

_SHARE = 16  # of what the heaps may hold, all ranks together have at most about this part as rings for STORE
_MOST_PIECES = 10_000  # that an error text looks at


class MessageBuffers:
    """The private side of the messages of one rank of a group. `words` is MAIL."""

    def __init__(self, heap: Heap, group: Group, rank: int, context: np.ndarray):
        self._heap = heap
        self._group = group
        self._rank = rank
        self._context = context
        self.words = np.zeros(ring_buffers.mail_words(group.size), np.int64)
        self._found = ring_buffers.found_offset(group.size) // WORD
        #: offsets of the rings to each rank by their numbers, in order
        self._rings: list[dict[int, int]] = [{} for _ in range(group.size)]
        self._numbers = count()
        self._lengths: dict[int, int] = {}  # of the rings, by their offsets
        self._note_most()
        self.expected: tuple[np.dtype, int] | None = None  # dtype and size of an `out`, seen as bytes, that did not fit

    # --- sending ------------------------------------------------------------------------------------------------------

    def new_ring(self, dest: int) -> int:
        """Offset of the memory that the routine has asked for. Raises `ArenaError` when there is too little."""
        self.sweep(dest)
        length = self._context.item(c.WANTED // WORD)
        offset = self._heap.take(length, f"messages to rank {self._group.name(dest)} that it has not received yet")
        self._rings[dest][next(self._numbers)] = offset
        self._lengths[offset] = length
        self._heap.ring_bytes += length
        self._note_most()
        self._note_oldest(dest)
        return offset

    def has_ring(self, dest: int) -> bool:
        """Return whether messages may be on their way to a rank."""
        return bool(self._rings[dest])

    @property
    def stores(self) -> bool:
        """Whether the message that is being sent has begun with STORE."""
        return self._word(ring_buffers.EXPECTING) == ring_buffers.STORES

    def progress(self, dest: int) -> tuple[int, int, int]:
        """Return the values that change while messages move to a rank: how much of the message is in a ring, which ring
        is the oldest, and how much of that has been read."""
        oldest = next(iter(self._rings[dest].values()), 0)
        head = self._group.arena.load(oldest + layout.RING_HEAD) if oldest else 0
        return self.words.item(self._chain_to(dest) + ring_buffers.SENT // WORD), oldest, head

    def sweep(self, dest: int) -> None:
        """Give back the rings that their receiver has left."""
        mine = self._rings[dest]
        for number, offset in list(mine.items()):
            if not self._group.arena.load(offset + layout.RING_LEFT):
                break
            if (
                self.words.item(self._chain_to(dest) + ring_buffers.BEGUN_IN // WORD)
                == self._group.arena.address + offset
            ):
                self.words[self._chain_to(dest) + ring_buffers.BEGUN_IN // WORD] = 0
            del mine[number]
            self._forget_length(offset)
            self._heap.give(offset)
        self._note_oldest(dest)

    def _forget_length(self, offset: int) -> None:
        self._heap.ring_bytes -= self._lengths.pop(offset, 0)
        self._note_most()

    def _note_most(self) -> None:
        """Store for the routine how long a ring may be that it asks for to store a message at once: as long as any that
        is kept, or none if the rings of this rank have their share of the heap. Another communicator learns of that
        when it makes its next ring."""
        arena = self._group.arena
        left = arena.load(layout.JOB_HEAP) // _SHARE // arena.ranks - self._heap.ring_bytes
        most = ring_buffers.KEPT_RING - layout.PAGE if left >= ring_buffers.KEPT_RING else 0
        self.words[self._found + ring_buffers.MOST_RING // WORD] = most

    def _note_oldest(self, dest: int) -> None:
        """Store for the routine which ring may be left next: 0 if the rank has only one."""
        mine = self._rings[dest]
        oldest = self._group.arena.address + next(iter(mine.values())) if len(mine) > 1 else 0
        self.words[self._chain_to(dest) + ring_buffers.OLDEST // WORD] = oldest

    def _chain_to(self, dest: int) -> int:
        """Return the index of the first word of the chain to a rank."""
        return (ring_buffers.chains_offset(self._group.size) + 2 * dest * ring_buffers.CHAIN_BYTES) // WORD

    def last_sent(self, dest: int) -> tuple[int, int]:
        """Return where the last message to a rank begins: the number of its ring, and the position there. The number is
        -1 if the ring has been given back already."""
        chain, arena = self._chain_to(dest), self._group.arena.address
        ring = self.words.item(chain + ring_buffers.BEGUN_IN // WORD)
        numbers = (number for number, offset in self._rings[dest].items() if arena + offset == ring)
        return next(numbers, -1), self.words.item(chain + ring_buffers.BEGUN // WORD) - 1

    def has_begun(self, dest: int, number: int, at: int) -> bool:
        """Return whether a rank has begun to receive the synchronous message that begins there. See
        `ring_buffers.py`."""
        ring = self.ring(dest, number)
        return ring == 0 or ring_buffers.has_begun(ring, at)

    def ring(self, dest: int, number: int) -> int:
        """Return the address of a ring; 0 if it has been given back."""
        offset = self._rings[dest].get(number)
        return 0 if offset is None else self._group.arena.address + offset

    def drop_all(self) -> dict[int, list[int]]:
        """Return the rings by receiver, and forget them: the caller gives them back."""
        left = {dest: list(mine.values()) for dest, mine in enumerate(self._rings) if mine}
        self._rings = [{} for _ in self._rings]
        for offset in list(self._lengths):
            self._forget_length(offset)
        return left

    # --- receiving ----------------------------------------------------------------------------------------------------

    @property
    def found(self) -> tuple[int, int]:
        """Source and tag of the message that `recv` has found."""
        return self._word(ring_buffers.FOUND_SOURCE), self._word(ring_buffers.FOUND_TAG)

    def expect(self, times: int) -> None:
        """Set how often a send reports that it is blocked, because this rank has something to receive."""
        self.words[self._found + ring_buffers.EXPECTING // WORD] = times

    @property
    def is_found(self) -> bool:
        """Whether the last SEEK has found a message."""
        return self._word(ring_buffers.DONE) == ring_buffers.UNREAD

    @property
    def bytes_read(self) -> int:
        """How much of the message that has been found last has been read."""
        return self._word(ring_buffers.DONE)

    def goes_into(self, place: np.ndarray | None, form: int) -> bool:
        """Return whether the message found can be read into an array, or a new one, as `form` says."""
        if self.found_object != (form != ring_buffers.ARRAY):
            return False
        return place is None or (place.dtype == self.found_dtype and place.size >= self.found_count)

    def form_for(self, place: np.ndarray | None, form: int) -> int:
        """Return the form with which DATA reads the message found into an array. It does not fit if the array has
        another dtype."""
        if place is None or form != ring_buffers.ARRAY:
            return form
        is_foreign = place.dtype not in BY_NUMPY
        self.expected = (place.dtype, place.size) if is_foreign and not self.goes_into(place, form) else None
        if self._word(ring_buffers.FOUND_TYPE) == ring_buffers.FOREIGN_TYPE:
            is_foreign = place.dtype == self.found_dtype
        return ring_buffers.FOREIGN if is_foreign else form

    @property
    def found_object(self) -> bool:
        """Whether it is an object; its elements are bytes."""
        return self._word(ring_buffers.FOUND_TYPE) == ring_buffers.OBJECT

    @property
    def found_dtype(self) -> np.dtype:
        return self._found_array()[0]

    @property
    def found_shape(self) -> tuple[int, ...]:
        return self._found_array()[1]

    def _found_array(self) -> tuple[np.dtype, tuple[int, ...]]:
        code = self._word(ring_buffers.FOUND_TYPE)
        if code == ring_buffers.OBJECT:
            return np.dtype(np.uint8), (self.found_bytes,)
        start = self._found + ring_buffers.FOUND_DIMS // WORD
        words = tuple(self.words[start : start + self._word(ring_buffers.FOUND_DIMENSIONS)].tolist())
        return described(words) if code == ring_buffers.FOREIGN_TYPE else (BY_CODE[code].numpy, words)

    @property
    def found_bytes(self) -> int:
        """The length of the message that has been found last."""
        return self._word(ring_buffers.FOUND_TOTAL)

    @property
    def found_count(self) -> int:
        dtype, shape = self._found_array()
        return self.found_bytes // dtype.itemsize if dtype.itemsize else math.prod(shape)

    def new_array(self) -> np.ndarray:
        """Return a new array for the message that has been found, or for the bytes of an object."""
        dtype, shape = self._found_array()
        return np.empty(shape, dtype)

    def _word(self, offset: int) -> int:
        return self.words.item(self._found + offset // WORD)

    def senders(self) -> list[int]:
        """Return the ranks that have sent messages to this one."""
        rings = self._group.load_of_each(layout.rings_offset(self._group.size) + self._rank * WORD)
        return [source for source, ring in enumerate(rings) if ring]

    def waiting(self, source: int) -> list[int]:
        """Return the tags of the messages from a rank that have arrived and not been received, in order, for error
        texts."""
        chain = (ring_buffers.chains_offset(self._group.size) + (2 * source + 1) * ring_buffers.CHAIN_BYTES) // WORD
        if self.words.item(chain) == 0:  # this rank has not looked for messages of that one before
            return SeenMessages(self._group, self._rank).waiting(source)
        ring = self.words.item(chain) - self._group.arena.address
        arena, at = self._group.arena, self.words.item(chain + ring_buffers.HEAD // WORD)
        return _waiting(arena.load, arena.size, ring, at)


class SeenMessages:
    """The messages that wait for a rank of a group, as another process sees them.

    What the rank has read, and has not passed by HEAD, is marked there. Only a chain that has its first ring is seen. A
    ring may be given back at any time. So words are read by pread, which allocates no pages for a hole.
    """

    def __init__(self, group: Group, rank: int):
        self._group, self._rank = group, rank

    def waiting(self, source: int) -> list[int]:
        """Return their tags as `MessageBuffers.waiting` does."""
        arena, group = self._group.arena, self._group
        ring = arena.load(group.mailbox(source) + layout.rings_offset(group.size) + self._rank * WORD)
        if not 0 < ring < arena.size - layout.RING_PIECES or self._load(ring + layout.RING_LEFT):
            return []
        return _waiting(self._load, arena.size, ring, self._load(ring + layout.RING_HEAD))

    def _load(self, offset: int) -> int:
        return int.from_bytes(os.pread(self._group.arena.fd, WORD, offset), "little", signed=True)


def _waiting(load: Callable[[int], int], size: int, ring: int, at: int) -> list[int]:
    """Return the tags of the messages from a place in a ring on that have come and not been received. size: that of the
    arena."""
    tags = []
    for _ in range(_MOST_PIECES):  # what is damaged may be a circle
        if not 0 < ring < size - layout.RING_PIECES:
            break
        capacity = load(ring + layout.RING_CAPACITY)
        if not 0 < capacity <= size - layout.RING_PIECES - ring:
            break  # damaged, as receiving will tell
        here = ring_buffers.piece(ring, capacity, at)
        if load(here + layout.PIECE_FLAG) != at + 1:
            break
        what = load(here + layout.PIECE_KIND)
        kind, total = layout.piece_kind(what), load(here + layout.PIECE_TOTAL)
        if kind == ring_buffers.NEXT:
            ring, at = total, 0
            continue
        if kind == ring_buffers.SKIP and total <= 0:
            break
        if kind == ring_buffers.FIRST and load(here + layout.PIECE_TAKEN) != ring_buffers.TAKEN:
            tags.append(load(here + layout.PIECE_TAG))
        length = ring_buffers.head_bytes(what) + load(here + layout.PIECE_LENGTH)
        at += total if kind == ring_buffers.SKIP else ring_buffers.whole_units(length)
    return tags
