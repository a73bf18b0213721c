"""Seeded bugs of locks that ranks take."""

from tests.schedule.explorer.mutants import BUFFERED, Mutant

ALONE, BOTH = "a lock of ranks", "a lock of ranks, shared and not"

MUTANTS_OF_LOCKS = {
    "nobody waits for a rank that chooses": Mutant(
        "rank_locks.take", "    store_release(words[mine], CHOOSING)\n", "", ALONE
    ),
    "a number is not told before others are looked at": Mutant(
        "rank_locks.take", "word)\n    fence()\n", "word)\n", ALONE, BUFFERED
    ),
    "a rank chooses, and its number is not above all": Mutant(
        "rank_locks.take", "(load_acquire(words[rank]) >> _SHIFT) + 1", "1", ALONE
    ),
    "who wants to share lets nobody wait": Mutant(
        "IsBehind.__call__", "word & self.own_word & SHARED", "word & SHARED", BOTH
    ),
}
