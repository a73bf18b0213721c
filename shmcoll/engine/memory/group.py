"""A group as plain Python sees it: where its region is, which ranks its members are, whether it has ended.

ABORT goes from 0 to 1 once. Every process may set it, and it does not matter how many do. A process that ends a group
has written the reason before (`records.py`), and rings every doorbell afterwards. A waiter reads ABORT after it has
announced that it sleeps, and before it sleeps. So either it finds the word set, or the doorbell rings after that and
ends its sleep. No rank sleeps on.

Order of memory. ABORT is stored with release: a rank that finds it set finds the record of the reason. A fence follows:
no rank sees what this rank does to its own arrays afterwards before it sees ABORT. `has_ended` in
`engine/protocol/sync.py` relies on that.
"""

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from shmcoll.engine import layout
from shmcoll.engine.memory.arena import Arena

_sem_post = ctypes.CDLL(None).sem_post
_sem_post.argtypes = (ctypes.c_void_p,)


class RankName(int):
    """A rank of a group, whose text includes its rank in the world if that differs: '1', or '1 (world rank 3)'.

    The ranks that users pass and see are ranks of the group (`comm.rank`, root, dest). The ranks of a launcher and of a
    table of all ranks are ranks of the world. So a message names both if they differ.
    """

    world: int

    def __new__(cls, rank: int, world: int) -> "RankName":
        name = super().__new__(cls, rank)
        name.world = world
        return name

    def __str__(self) -> str:
        return f"{int(self)}" if self == self.world else f"{int(self)} (world rank {self.world})"


def names(ranks: Iterable[object]) -> str:
    """Return 'rank 2' or 'ranks 0, 2', for messages. The elements are numbers of ranks, or their names in a group."""
    listed = [str(rank) for rank in ranks]
    return f"rank {listed[0]}" if len(listed) == 1 else f"ranks {', '.join(listed)}"


@dataclass(frozen=True)
class Group:
    """The group whose region begins at `offset` of the arena. ranks: its members, as ranks of the world."""

    arena: Arena
    offset: int
    ranks: tuple[int, ...]

    @classmethod
    def world(cls, arena: Arena) -> "Group":
        return cls(arena, arena.world, tuple(range(arena.ranks)))

    @property
    def size(self) -> int:
        return len(self.ranks)

    def name(self, rank: int) -> RankName:
        """Return the name of a rank of the group, for messages."""
        return RankName(rank, self.ranks[rank])

    def names(self, ranks: Iterable[int]) -> str:
        """Return the names of some of its ranks, for messages: 'rank 2' or 'ranks 0, 2'."""
        return names(self.name(rank) for rank in ranks)

    @property
    def title(self) -> str:
        """The members, for messages: 'world ranks 1, 3'."""
        return f"world {names(self.ranks)}"

    def mailbox(self, rank: int) -> int:
        """Return the offset in the arena of the mailbox of a rank of the group."""
        first, stride = self._mailboxes
        return first + rank * stride

    @cached_property
    def _mailboxes(self) -> tuple[int, int]:
        """The offset of the first mailbox, and the bytes from one to the next."""
        return self.offset + layout.mailboxes_offset(self.size), layout.mailbox_bytes(self.size)

    def load_of_each(self, word: int) -> list[int]:
        """Return a word of the mailboxes of all ranks."""
        first, stride = self._mailboxes
        return self.arena.load_each(first + word, stride, self.size)

    def header(self, rank: int, sequence: int) -> int:
        """Return the offset in the arena of the header of a rank for operation `sequence`."""
        return self.mailbox(rank) + layout.header_offset(sequence)

    def published(self, rank: int) -> int:
        """Return the number of the last collective that a rank has published: its headers take turns."""
        slots = range(layout.HEADERS)
        return max(self.arena.load(self.header(rank, slot) + layout.HEADER_SEQUENCE) for slot in slots)

    def has_ended(self) -> bool:
        return self.arena.load(self.offset + layout.ABORT) != 0

    def abort(self) -> None:
        """End the group: every wait in it returns at once, every later call raises."""
        self.arena.store(self.offset + layout.ABORT, 1)
        self.arena.fence()
        self.ring()

    def ring(self) -> None:
        """Post every doorbell, so that each sleeping rank checks what it waits for."""
        first, stride = self._mailboxes
        first += self.arena.address + layout.SEMAPHORE
        for rank in range(self.size):
            _sem_post(first + rank * stride)

    def ring_one(self, rank: int) -> None:
        """Post the doorbell of one rank."""
        _sem_post(self.arena.address + self.mailbox(rank) + layout.SEMAPHORE)
