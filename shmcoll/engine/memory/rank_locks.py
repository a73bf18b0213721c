"""A lock that ranks take for one thing in shared memory: shared or exclusive, in the order in which they ask.

It is Lamport's bakery. Each rank has one word, which only this rank writes. So a rank that has died keeps nobody out
that knows of its death, and no instruction that changes a word of another rank is needed. The words of a lock are one
behind the other, in the order of the ranks.

    word     0: the rank neither has nor wants the lock. CHOOSING: it chooses a number. Otherwise its number, which is
             1 or more, times 4, plus SHARED if it wants the lock beside others

    take     word = CHOOSING;  fence;  number = 1 + the greatest number of all;  word = number;  fence
             then for each other rank: wait while its word is CHOOSING; wait while it has a lower number (or the same
             and a lower rank), unless both want to share
    give     word = 0, with release: who sees it sees what was done under the lock

Of two ranks that choose at the same time, the one whose second fence is later sees the other's word, CHOOSING or the
number; so one of them waits. A rank that has seen 0 in a word may go on: who comes later sees its number, and takes a
greater one. A rank that has waited too long gives the lock back, which is allowed at any time: its word is 0 as if it
had never asked.

Nobody waits for a rank that does not want the lock. A rank that chooses does not wait meanwhile. Numbers are all
different together with the ranks, so the lowest goes on, and a rank waits for each other one at most once: the next
number of that one is greater. If a rank has ended, or the wait is too long, `wait_until` of the caller raises. Then the
caller gives the lock back. `take_soon` gives it back itself after so many looks. The threads of a rank have one word
together: the caller lets only one at a time in.

Cost without others: 2 fences and 3 loads for each rank.
"""

from collections.abc import Callable
from typing import NamedTuple

from shmcoll.engine.atomics import fence, load_acquire, pause, store_release
from shmcoll.engine.layout import WORD

CHOOSING = 1
SHARED = 2
_SHIFT = 2


class IsBehind(NamedTuple):
    """Called, it returns whether a rank does not come before this one. word: the address of that rank's."""

    word: int
    rank: int
    own: int
    mine: int

    def __call__(self) -> bool:
        return bool(is_behind(*self))


#: waits until a function returns true; the number is the rank that it is about. It may raise
WaitUntil = Callable[[IsBehind, int], None]


def take(words: int, ranks: int, mine: int, wait_until: WaitUntil, *, shared: bool = False) -> None:
    """Take the lock. After an exception, call `give`.

    Args:
        words: the address of the words of all ranks.
        mine: this rank.
    """
    own = choose(words, ranks, mine, SHARED if shared else 0)
    for rank in range(ranks):
        if rank != mine:
            wait_until(IsBehind(words + rank * WORD, rank, own, mine), rank)


def take_soon(words, ranks, mine, looks):
    """Take the lock alone if others let this rank have it within so many looks. Return whether it has been taken."""
    own = choose(words, ranks, mine, 0)
    for rank in range(ranks):
        while rank != mine and not is_behind(words + rank * WORD, rank, own, mine):
            looks -= 1
            if looks < 0:
                give(words, mine)
                return False
            pause()
    return True


def choose(words, ranks, mine, shared):
    """Ask for the lock. Return the word of this rank."""
    store_release(words + mine * WORD, CHOOSING)
    fence()
    number = 1
    for rank in range(ranks):
        number = max(number, (load_acquire(words + rank * WORD) >> _SHIFT) + 1)
    own = number << _SHIFT | shared
    store_release(words + mine * WORD, own)
    fence()
    return own


def is_behind(at, rank, own, mine):
    """Return whether a rank, whose word is at `at`, does not come before this one."""
    word = load_acquire(at)
    if word == CHOOSING:
        return False
    if word == 0 or word & own & SHARED:
        return True
    number, own_number = word >> _SHIFT, own >> _SHIFT
    return number > own_number or (number == own_number and rank > mine)


def give(words, mine):
    """Give the lock back."""
    store_release(words + mine * WORD, 0)
