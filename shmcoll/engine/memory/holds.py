"""Holds: which ranks see a block of another rank's heap, and how its memory is given back.

Behind a block that other ranks may see are words: one for each rank of the world, and one more.

    HOLD     of a rank, which alone writes it: how many views of the block it has. LEAVING: it has none any more, and
             may be giving the memory back
    GIVEN    0; SURE or DOUBTED once the owner of the block has dropped its array. Only the owner writes it

Hold. The ranks learn of a block in a collective call, and meet in a barrier at its end. LEARNING, in the directory of a
rank, counts its calls that do so.

    member   LEARNING + 1;  fence;  learns where the block is;  reads ABORT: 0;  HOLD + 1;  LEARNING - 1;  barrier
    owner    after the barrier: GIVEN = SURE. After an error in the call, which sets ABORT: GIVEN = DOUBTED
             fence;  reads HOLD of every rank, if DOUBTED first its LEARNING. All 0: it uses the block again

After the barrier all members hold the block. After an error, a member that has found ABORT = 0 had stored LEARNING
before ABORT was set. So the owner finds LEARNING, or the HOLD that the member stored before it lowered LEARNING. A
member that finds ABORT = 1 does not touch the block.

Let go. The last one gives the memory back, whether it is the owner or not.

    viewer   HOLD = LEAVING;  fence;  reads GIVEN: SURE, and every HOLD: 0 or LEAVING;  gives the memory back;  HOLD = 0
    owner    GIVEN = SURE;  fence;  reads every HOLD: 0 or LEAVING;  gives the memory back

Of two that let go at the same time, the one whose store is later finds the other's. So at least one gives the memory
back. Several may, and that does no harm: only the owner uses the block again, when every HOLD is 0, and then nobody
gives back any more. The words themselves are in a page that only the owner gives back.

Nobody waits. The words of a rank that has ended count as 0. If it was the last one, the owner gives the memory back
when it takes or drops memory the next time. If the owner has ended, its block counts as given, and nobody uses it
again.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.records import how_ended

if TYPE_CHECKING:
    from shmcoll.engine.memory.arena import Arena

LEAVING = 1 << 62
SURE, DOUBTED = 1, 2


def words(ranks: int) -> int:
    """Return how many words a block has behind it."""
    return ranks + 1


def tell(
    arena: "Arena", holds: int, rank: int, owner: int, views: Collection[object], clear: Callable[[], None]
) -> None:
    """Write how many views of a block this rank has. A signal handler, or the garbage collector, may change that
    meanwhile.

    Args:
        holds: where the words of the block begin.
        owner: the rank whose block it is.
        views: one element for each view.
        clear: gives the memory back. Called if no rank has a view any more, and the owner has dropped the block.
    """
    word, told = holds + rank * WORD, -1
    while told != (told := len(views)):
        if told:
            arena.store(word, told)
        else:
            _let_go(arena, holds, rank, owner, clear)


def _let_go(arena: "Arena", holds: int, rank: int, owner: int, clear: Callable[[], None]) -> None:
    word = holds + rank * WORD
    arena.store(word, LEAVING)
    arena.fence()
    try:
        is_given = arena.load(holds + arena.ranks * WORD) == SURE or how_ended(arena, owner)
        if is_given and nobody_sees(arena, holds):
            clear()
    finally:
        arena.store(word, 0)


def give(arena: "Arena", holds: int, *, doubted: bool) -> None:
    """Note that the owner has dropped its array. doubted: a call has failed in which other ranks learned of it."""
    arena.store(holds + arena.ranks * WORD, DOUBTED if doubted else SURE)
    arena.fence()


def nobody_sees(arena: "Arena", holds: int) -> bool:
    """Return whether no living rank has views of a block."""
    for rank in range(arena.ranks):
        views = arena.load(holds + rank * WORD)
        if views not in (0, LEAVING) and not how_ended(arena, rank):
            return False
    return True


def is_held(arena: "Arena", holds: int, *, doubted: bool) -> bool:
    """Return whether a living rank may still read, write or give back the memory of a block that has been given."""
    for rank in range(arena.ranks):
        learns = doubted and arena.load(layout.directory_offset(arena.ranks, rank) + layout.LEARNING)
        if (learns or arena.load(holds + rank * WORD)) and not how_ended(arena, rank):
            return True
    return False
