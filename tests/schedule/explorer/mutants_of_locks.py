"""Seeded bugs of locks that ranks take."""

from tests.schedule.explorer.mutants import BUFFERED, Mutant

ALONE, BOTH = "a lock of ranks", "a lock of ranks, shared and not"
SOON = "a lock of ranks, and one that does not wait"

MUTANTS_OF_LOCKS = {
    "nobody waits for a rank that chooses": Mutant(
        "rank_locks.choose", "    store_release(words + mine * WORD, CHOOSING)\n", "", ALONE
    ),
    "a number is not told before others are looked at": Mutant(
        "rank_locks.choose", "own)\n    fence()\n", "own)\n", ALONE, BUFFERED
    ),
    "a rank chooses, and its number is not above all": Mutant(
        "rank_locks.choose", "(load_acquire(words + rank * WORD) >> _SHIFT) + 1", "1", ALONE
    ),
    "a rank that has looked often enough takes the lock": Mutant(
        "rank_locks.take_soon", "return False", "return True", SOON
    ),
    "who wants to share lets nobody wait": Mutant("rank_locks.is_behind", "word & own & SHARED", "word & SHARED", BOTH),
}
