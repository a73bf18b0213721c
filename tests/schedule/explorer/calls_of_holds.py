"""A block of rank 0 that the others learn of, hold, write, read and let go: `engine/memory/holds.py`.

Each rank has a word of the block. Its owner fills the block with USED, and the words behind it too, as soon as it may
use it again. From then on nobody may touch it. Who gives the memory back sets the words of the block to 0.
"""

from dataclasses import dataclass
from functools import cache

from shmcoll.collectives.barrier import barrier
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import holds
from shmcoll.engine.memory.group import Group
from tests.schedule.explorer.calls import Call
from tests.schedule.explorer.job import Rank, SharedArena
from tests.schedule.explorer.program import Violation

USED = 99


class ArenaWithBlock(SharedArena):
    """`at`: where the block begins; behind it are the words of `holds`, then DONE of each rank, then FREED."""

    def __init__(self, ranks: int, at: int):
        super().__init__(ranks)
        self.at = at
        self.holds = at + ranks * WORD
        self.done = self.holds + holds.words(ranks) * WORD
        self.freed = self.done + ranks * WORD

    def store(self, offset: int, value: int) -> None:
        if self.at <= offset < self.done and super().load(offset) == USED:
            raise Violation("a rank writes a block that its owner uses again")
        super().store(offset, value)

    def clear(self) -> None:
        for i in range(self.ranks):
            self.store(self.at + i * WORD, 0)
        self.store(self.freed, 1)

    def use(self) -> None:
        for offset in range(self.at, self.done, WORD):
            self.store(offset, USED)
        self.store(self.freed, 1)


@cache
def with_block(ranks: int, at: int) -> ArenaWithBlock:
    return ArenaWithBlock(ranks, at)


@dataclass(frozen=True)
class ShareResult(Call):
    """`fails`: the owner leaves in the midst of the call."""

    fails: bool = False
    together = False

    @property
    def ends(self) -> bool:  # type: ignore[override]
        return self.fails

    def run(self, rank: Rank, number: int) -> int:
        arena, me = with_block(rank.job.ranks, rank.job.world_end), rank.number
        learning = layout.directory_offset(arena.ranks, me) + layout.LEARNING
        arena.store(learning, 1)
        arena.fence()
        status, views = rank.enter(barrier), ()
        if status == c.OK and Group.world(arena).has_ended():  # type: ignore[arg-type]
            status = c.ABORTED
        if status == c.OK and me:
            views = (number,)
            holds.tell(arena, arena.holds, me, 0, views, arena.clear)  # type: ignore[arg-type]
        arena.store(learning, 0)
        if status == c.OK and self.fails and me == 0:
            Group.world(arena).abort()  # type: ignore[arg-type]
            status = c.ABORTED
        if status == c.OK or views:
            arena.store(arena.at + me * WORD, 1 + me)
        if status == c.OK:
            status = rank.enter(barrier)
        if status == c.OK:
            for i in range(arena.ranks):
                if arena.load(arena.at + i * WORD) != 1 + i:
                    raise Violation(f"rank {me} reads a block that is gone")
        if me == 0:
            self._give(arena, status != c.OK)
        elif views:
            holds.tell(arena, arena.holds, me, 0, (), arena.clear)  # type: ignore[arg-type]
        if status == c.OK:
            self._check_freed(arena, me)
        return status

    def _give(self, arena: ArenaWithBlock, doubted: bool) -> None:
        """As `Heap.give` does."""
        holds.give(arena, arena.holds, doubted=doubted)  # type: ignore[arg-type]
        if not holds.is_held(arena, arena.holds, doubted=doubted):  # type: ignore[arg-type]
            arena.use()
        elif not doubted and holds.nobody_sees(arena, arena.holds):  # type: ignore[arg-type]
            arena.clear()

    def _check_freed(self, arena: ArenaWithBlock, me: int) -> None:
        arena.store(arena.done + me * WORD, 1)
        arena.fence()
        for i in range(arena.ranks):
            if not arena.load(arena.done + i * WORD):
                return
        if not arena.load(arena.freed):
            raise Violation("all ranks have let go, and the memory is not given back")
