"""What several collectives share: counts, blocks, results, and the factors of nccl-tests."""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from shmbench.collectives import Case, Counts
from shmbench.collectives.payload import Segment

UFUNCS = {"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def whole(elements: int, ranks: int) -> Counts:
    """Return the counts if every rank has an array of the size."""
    return Counts(count=elements, size=elements)


def blocks(elements: int, ranks: int) -> Counts:
    """Return the counts if the size is that of all blocks together. The blocks are equal, and never empty."""
    block = max(1, elements // ranks)
    return Counts(count=block, size=block * ranks)


def alike(case: Case) -> tuple[int, int]:
    """Return the lengths if input and output have the size."""
    return case.counts.size, case.counts.size


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


def place(lengths: Sequence[int], rank: int) -> slice:
    """Return the place of the block of `rank` if blocks of these lengths follow one another."""
    start = sum(lengths[:rank])
    return slice(start, start + lengths[rank])


def everyones(case: Case, seq: int, lengths: Sequence[int]) -> list[Segment]:
    """Return the inputs of all ranks, one after the other."""
    places = [place(lengths, rank) for rank in range(case.ranks)]
    return [Segment(p.start, p.stop, case.sent(rank, seq)) for rank, p in enumerate(places)]


def reduced(case: Case, seq: int, ranks: Sequence[int], start: int = 0) -> np.ndarray:
    """Return the pattern that the reduction of the inputs of `ranks` has from element `start` on."""
    result: np.ndarray = reduce(UFUNCS[case.op], [case.sent(rank, seq, start) for rank in ranks])
    return (result / case.ranks).astype(case.dtype) if case.op == "avg" else result


def with_algorithm(method: Callable[..., Any], case: Case) -> Callable[..., Any]:
    """Return the method of a communicator, made to use the algorithm that was asked for."""
    return partial(method, algorithm=case.algorithm) if case.algorithm else method


def over_itself(case: Case, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays in place: the output is the input."""
    return memory, memory


def apart(ranks: int) -> float:
    """Return the bus factor of a collective in which a rank has its own block already, and all links work at once."""
    return (ranks - 1) / ranks


def along(ranks: int) -> float:
    """Return the bus factor of a collective in which all data has to pass one rank, or each rank in turn."""
    return 1.0
