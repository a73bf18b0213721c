"""The lengths of blocks and arrays, in elements."""

from collections.abc import Callable, Sequence
from typing import Any

from shmbench.collectives import Case, Counts

Lengths = Callable[[Case], list[int]]  # of the blocks of all ranks
Setting = Callable[[Case], Any]  # an argument of a call


def whole(elements: int, ranks: int) -> Counts:
    """Return the counts if every rank has an array of the size."""
    return Counts(count=elements, size=elements)


def blocks(elements: int, ranks: int) -> Counts:
    """Return the counts if the size is that of all blocks together. The blocks are equal, and never empty."""
    block = max(1, elements // ranks)
    return Counts(count=block, size=block * ranks)


def even(case: Case) -> list[int]:
    """Return the lengths of equal blocks."""
    return [case.counts.count] * case.ranks


def uneven(case: Case) -> list[int]:
    """Return a length for each rank's block: the mean for rank 0, then half as much again, then half as much.

    Their sum is that of equal blocks. With 2 ranks they are equal.
    """
    mean, n = case.counts.count, case.ranks
    lengths = [mean] * n
    for k in range(1, (n + 1) // 2):
        lengths[k], lengths[n - k] = mean + mean // 2, mean - mean // 2
    return lengths


def sent_counts(case: Case, rank: int, lengths: Lengths = uneven) -> list[int]:
    """Return the elements that `rank` sends to each rank in all_to_all, packed in this order. The block for the rank k
    places further is block k: every rank sends and receives the same total."""
    found = lengths(case)
    return [found[(peer - rank) % case.ranks] for peer in range(case.ranks)]


def received_counts(case: Case, lengths: Lengths = uneven) -> list[int]:
    """Return the elements that this rank gets from each rank in all_to_all, packed in this order."""
    return [sent_counts(case, rank, lengths)[case.rank] for rank in range(case.ranks)]


def place(lengths: Sequence[int], rank: int) -> slice:
    """Return the place of the block of `rank` if blocks of these lengths follow one another."""
    start = sum(lengths[:rank])
    return slice(start, start + lengths[rank])


def size(case: Case) -> int:
    return case.counts.size


def own(lengths: Lengths) -> Setting:
    """Return the length of this rank's block."""
    return lambda case: lengths(case)[case.rank]


def at_root(length: Setting) -> Setting:
    return lambda case: length(case) if case.is_root else 0


def pair(sends: Setting, gets: Setting) -> Callable[[Case], tuple[int, int]]:
    return lambda case: (sends(case), gets(case))


alike = pair(size, size)
