"""A lock that ranks take for one thing in shared memory: shared or exclusive, in the order in which they ask.

It is Lamport's bakery. Each rank has one word, which only this rank writes. So a rank that has died keeps nobody out
that knows of its death, and no instruction that changes a word of another rank is needed.

    word     0: the rank neither has nor wants the lock. CHOOSING: it chooses a number. Otherwise its number, which is
             1 or more, times 4, plus SHARED if it wants the lock beside others

    take     word = CHOOSING;  fence;  number = 1 + the greatest number of all;  word = number;  fence
             then for each other rank: wait while its word is CHOOSING; wait while it has a lower number (or the same
             and a lower rank), unless both want to share
    give     word = 0, with release: who sees it sees what was done under the lock

Of two ranks that choose at the same time, the one whose second fence is later sees the other's word, CHOOSING or the
number; so one of them waits. A rank that has seen 0 in a word may go on: who comes later sees its number, and takes a
greater one.

Nobody waits for a rank that does not want the lock. A rank that chooses does not wait meanwhile. Numbers are all
different together with the ranks, so the lowest goes on, and a rank waits for each other one at most once: the next
number of that one is greater. If a rank has ended, or the wait is too long, `wait_until` of the caller raises. Then the
caller gives the lock back, and this rank's word is 0 again. The threads of a rank have one word together: the caller
lets only one at a time in.

Cost without others: 2 fences and 3 loads for each rank.
"""

from collections.abc import Callable
from typing import NamedTuple

from shmcoll.engine.atomics import fence, load_acquire, store_release

CHOOSING = 1
SHARED = 2
_SHIFT = 2


class IsBehind(NamedTuple):
    """Called, it returns whether a rank does not come before this one. word: the address of that rank's."""

    word: int
    rank: int
    own_word: int
    own_rank: int

    def __call__(self) -> bool:
        word = load_acquire(self.word)
        if word == CHOOSING:
            return False
        if word == 0 or word & self.own_word & SHARED:
            return True
        return (word >> _SHIFT, self.rank) > (self.own_word >> _SHIFT, self.own_rank)


#: waits until a function returns true; the number is the rank that it is about. It may raise
WaitUntil = Callable[[IsBehind, int], None]


def take(words: tuple[int, ...], mine: int, wait_until: WaitUntil, *, shared: bool = False) -> None:
    """Take the lock. After an exception, call `give`.

    Args:
        words: the addresses of the words of all ranks.
        mine: this rank.
    """
    store_release(words[mine], CHOOSING)
    fence()
    number = 1
    for rank in range(len(words)):
        number = max(number, (load_acquire(words[rank]) >> _SHIFT) + 1)
    word = number << _SHIFT | (SHARED if shared else 0)
    store_release(words[mine], word)
    fence()
    for rank in range(len(words)):
        if rank != mine:
            wait_until(IsBehind(words[rank], rank, word, mine), rank)


def give(words: tuple[int, ...], mine: int) -> None:
    """Give the lock back."""
    store_release(words[mine], 0)
