"""A group as plain Python sees it: where its region lies, who its members are, whether it has ended.

ABORT goes from 0 to 1 once, and anyone may set it: it does not matter how many do. Whoever ends a group has written why
before (`records.py`), and rings every doorbell afterwards. A waiter looks at ABORT after announcing that it sleeps and
before it does, so either it sees the word or the ring comes after its look and ends its sleep: nobody sleeps on.

Order of memory. ABORT is stored with release: a rank that finds it set finds the record that says why. A fence follows:
what this rank does to its own arrays afterwards is not seen before ABORT is, which `has_ended` in
`engine/protocol/sync.py` relies on.
"""

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass

from shmcoll.engine import layout
from shmcoll.engine.memory.arena import Arena

_LIBC = ctypes.CDLL(None, use_errno=True)


class RankName(int):
    """A rank of a group, which as text says which rank of the world it is: '1', or '1 (world rank 3)'.

    Whatever users pass and see counts in the group (`comm.rank`, root, dest), a launcher and a table of all ranks count
    in the world. So a message names both where they differ.
    """

    world: int

    def __new__(cls, rank: int, world: int) -> "RankName":
        name = super().__new__(cls, rank)
        name.world = world
        return name

    def __str__(self) -> str:
        return f"{int(self)}" if self == self.world else f"{int(self)} (world rank {self.world})"


def names(ranks: Iterable[object]) -> str:
    """'rank 2' or 'ranks 0, 2', for messages. The elements are numbers of ranks, or their names in a group."""
    listed = [str(rank) for rank in ranks]
    return f"rank {listed[0]}" if len(listed) == 1 else f"ranks {', '.join(listed)}"


@dataclass(frozen=True)
class Group:
    """The group whose region starts at `offset` of the arena; `ranks` are its members, as ranks of the world."""

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
        """Return a rank of the group for messages."""
        return RankName(rank, self.ranks[rank])

    def names(self, ranks: Iterable[int]) -> str:
        """Return some of its ranks, for messages: 'rank 2' or 'ranks 0, 2'."""
        return names(self.name(rank) for rank in ranks)

    @property
    def title(self) -> str:
        """'world ranks 1, 3': its members, for messages."""
        return f"world {names(self.ranks)}"

    def mailbox(self, rank: int) -> int:
        """Return the offset in the arena of the mailbox of a rank of the group."""
        return self.offset + layout.mailbox_offset(self.size, rank)

    def published(self, rank: int) -> int:
        """Return the number of the last collective that a rank has published: its two headers take turns."""
        headers = (self.mailbox(rank), self.mailbox(rank) + layout.HEADER_BYTES)
        return max(self.arena.load(header + layout.HEADER_SEQUENCE) for header in headers)

    def has_ended(self) -> bool:
        return self.arena.load(self.offset + layout.ABORT) != 0

    def abort(self) -> None:
        """End the group: every wait in it returns at once, every later call raises."""
        self.arena.store(self.offset + layout.ABORT, 1)
        self.arena.fence()
        self.ring()

    def ring(self) -> None:
        """Post every doorbell, so that each sleeping rank looks around."""
        for rank in range(self.size):
            self.ring_one(rank)

    def ring_one(self, rank: int) -> None:
        """Post the doorbell of one rank."""
        _LIBC.sem_post(ctypes.c_void_p(self.arena.address + self.mailbox(rank) + layout.SEMAPHORE))
