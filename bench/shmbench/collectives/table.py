"""The table of collectives: what each rank gives and gets, how it is called, and the factors of nccl-tests.

Size is that of all blocks together if there are blocks, and count that of one; of uneven blocks, the mean. Calls with
counts are not given receive counts: the operation finds them.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective, Counts, parts
from shmbench.collectives.lengths import (
    Lengths,
    Setting,
    alike,
    at_root,
    blocks,
    even,
    own,
    pair,
    place,
    received_counts,
    sent_counts,
    size,
    uneven,
    whole,
)
from shmbench.collectives.payload import Segment

Expected = Callable[[Case, int], list[Segment]]

UFUNCS = {"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}

# --- results ----------------------------------------------------------------------------------------------------------


def reduced(case: Case, seq: int, ranks: Sequence[int], start: int = 0) -> np.ndarray:
    """Return the pattern that the reduction of the inputs of `ranks` has from element `start` on."""
    result: np.ndarray = reduce(UFUNCS[case.op], [case.sent(rank, seq, start) for rank in ranks])
    return (result / case.ranks).astype(case.dtype) if case.op == "avg" else result


def of_rank(rank: Callable[[Case], int]) -> Expected:
    """Return the result that is the input of one rank."""
    return lambda case, seq: [Segment(0, case.counts.size, case.sent(rank(case), seq))]


def of_ranks(ranks: Callable[[Case], range]) -> Expected:
    """Return the result that is the reduction of the inputs of some ranks; none of no ranks."""

    def expected(case: Case, seq: int) -> list[Segment]:
        return [Segment(0, case.counts.size, reduced(case, seq, ranks(case)))] if ranks(case) else []

    return expected


def gathered(lengths: Lengths) -> Expected:
    """Return the result that is the inputs of all ranks, one after the other."""

    def expected(case: Case, seq: int) -> list[Segment]:
        places = [place(lengths(case), rank) for rank in range(case.ranks)]
        return [Segment(p.start, p.stop, case.sent(rank, seq)) for rank, p in enumerate(places)]

    return expected


def scattered(lengths: Lengths, block: Callable[[Case, int, int], np.ndarray]) -> Expected:
    """Return the result that is this rank's block. block(case, seq, start): its pattern."""

    def expected(case: Case, seq: int) -> list[Segment]:
        found = place(lengths(case), case.rank)
        return [Segment(0, found.stop - found.start, block(case, seq, found.start))]

    return expected


def exchanged(lengths: Lengths) -> Expected:
    """Return the result of all_to_all."""

    def expected(case: Case, seq: int) -> list[Segment]:
        segments = []
        for rank in range(case.ranks):
            target = place(received_counts(case, lengths), rank)
            source = place(sent_counts(case, rank, lengths), case.rank)
            segments.append(Segment(target.start, target.stop, case.sent(rank, seq, source.start)))
        return segments

    return expected


def only_root(expected: Expected) -> Expected:
    return lambda case, seq: expected(case, seq) if case.is_root else []


def root_block(case: Case, seq: int, start: int) -> np.ndarray:
    return case.sent(case.root, seq, start)


def sum_block(case: Case, seq: int, start: int) -> np.ndarray:
    return reduced(case, seq, range(case.ranks), start)


# --- calls ------------------------------------------------------------------------------------------------------------


def calls(name: str, *settings: Setting) -> Callable[[Any, Case, Buffers, int], None]:
    """Return the loop around the method `name`, whose arguments are the input and at most two settings. It is written
    out for each number of them, because `*arguments` would take longer."""

    def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
        call, turns = getattr(comm, name), islice(cycle(buffers), n)
        if case.algorithm:
            call = partial(call, algorithm=case.algorithm)
        arguments = [setting(case) for setting in settings]
        if not arguments:
            for x, out in turns:
                call(x, out=out)
        elif len(arguments) == 1:
            (a,) = arguments
            for x, out in turns:
                call(x, a, out=out)
        else:
            a, b = arguments
            for x, out in turns:
                call(x, a, b, out=out)

    return run


def repeat(call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], n: int) -> None:
    """Make `n` calls of a peer with the arguments in turn."""
    turns: Any = islice(cycle(arguments), n)
    if len(arguments[0]) == 2:
        for a, b in turns:
            call(a, b)
    elif len(arguments[0]) == 3:
        for a, b, c in turns:
            call(a, b, c)
    elif len(arguments[0]) == 4:
        for a, b, c, d in turns:
            call(a, b, c, d)
    else:
        for a, b, c, d, e in turns:
            call(a, b, c, d, e)


def barrier(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    call = comm.barrier
    for _ in range(n):
        call()


def dup(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    for _ in range(n):
        comm.dup().close()


def split(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    for _ in range(n):
        comm.split(case.rank % 2, case.rank).close()


def dups_open(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    for group in [comm.dup() for _ in range(n)]:
        group.close()


def broadcast(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    call, root = comm.broadcast, case.root
    for x, _ in islice(cycle(buffers), n):
        call(x, root)


def scatter_v(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    call, root, counts = comm.scatter_v, case.root, block_counts(case) if case.is_root else None
    for x, out in islice(cycle(buffers), n):
        call(x, root, send_counts=counts, out=out)


def op(case: Case) -> str:
    return case.op


def root(case: Case) -> int:
    return case.root


def block_counts(case: Case) -> np.ndarray:
    return np.array(uneven(case), np.int64)


def own_counts(case: Case) -> np.ndarray:
    return np.array(sent_counts(case, case.rank), np.int64)


def to_the_next(case: Case) -> list[tuple[int, int]]:
    return [(rank, (rank + 1) % case.ranks) for rank in range(case.ranks)]


# --- in place, and bus factors ----------------------------------------------------------------------------------------


def over_itself(case: Case, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays in place: the output is the input."""
    return memory, memory


def from_block(case: Case, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays in place: the input is this rank's own block of its output."""
    return memory[place(even(case), case.rank)], memory


def into_block(lengths: Lengths) -> Callable[[Case, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return the arrays in place: the output is this rank's own block of its input."""
    return lambda case, memory: (memory, memory[place(lengths(case), case.rank)])


def apart(ranks: int) -> float:
    """Return the bus factor of a collective in which a rank has its own block already, and all links work at once."""
    return (ranks - 1) / ranks


def twice(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


def along(ranks: int) -> float:
    """Return the bus factor of a collective in which all data has to pass one rank, or each rank in turn, as in a
    chain: nccl-tests has no scan."""
    return 1.0


def without_arrays(run: Callable[[Any, Case, Buffers, int], None]) -> Collective:
    """Return a call that has no arrays."""
    return Collective(
        lambda elements, ranks: Counts(0, 0), lambda case: (0, 0), lambda case, seq: [], run, lambda ranks: 0.0,
        (), sized=False,
    )  # fmt: skip


def before(case: Case) -> int:
    return (case.rank - 1) % case.ranks


_ALL = of_ranks(lambda case: range(case.ranks))
_EVEN, _UNEVEN = own(even), own(uneven)
COLLECTIVES = {
    "barrier": without_arrays(barrier),
    "dup": without_arrays(dup),
    "split": without_arrays(split),
    "dups_open": without_arrays(dups_open),
    "broadcast": Collective(
        whole, alike, of_rank(root), broadcast, along, (parts.whole_of(root),), over_itself, out_of_place=False,
        rooted=True,
    ),
    "all_reduce": Collective(
        whole, alike, _ALL, calls("all_reduce", op), twice, (parts.all_reduced,), over_itself, reduces=True
    ),
    "reduce": Collective(
        whole, pair(size, at_root(size)), only_root(_ALL), calls("reduce", root, op), along,
        (parts.reduced, parts.reduced_at_root), over_itself, reduces=True, rooted=True,
    ),
    "reduce_scatter": Collective(
        blocks, pair(size, _EVEN), scattered(even, sum_block), calls("reduce_scatter", op), apart,
        (parts.reduced_blocks(even),), into_block(even), reduces=True,
    ),
    "reduce_scatter_v": Collective(
        blocks, pair(size, _UNEVEN), scattered(uneven, sum_block), calls("reduce_scatter_v", block_counts, op), apart,
        (parts.reduced_blocks(uneven),), into_block(uneven), reduces=True,
    ),
    "scan": Collective(
        whole, alike, of_ranks(lambda case: range(case.rank + 1)), calls("scan", op), along, (parts.scanned,),
        over_itself, reduces=True,
    ),
    "exscan": Collective(
        whole, pair(size, lambda case: size(case) if case.rank else 0), of_ranks(lambda case: range(case.rank)),
        calls("exscan", op), along, (parts.scanned_before,), over_itself, reduces=True,
    ),
    "all_gather": Collective(
        blocks, pair(_EVEN, size), gathered(even), calls("all_gather"), apart, (parts.gathered(even),), from_block
    ),
    "all_gather_v": Collective(
        blocks, pair(_UNEVEN, size), gathered(uneven), calls("all_gather_v"), apart, (parts.gathered(uneven),)
    ),
    "gather": Collective(
        blocks, pair(_EVEN, at_root(size)), only_root(gathered(even)), calls("gather", root), apart,
        (parts.only_root(parts.gathered(even)),), rooted=True,
    ),
    "gather_v": Collective(
        blocks, pair(_UNEVEN, at_root(size)), only_root(gathered(uneven)), calls("gather_v", root), apart,
        (parts.only_root(parts.gathered(uneven)),), rooted=True,
    ),
    "scatter": Collective(
        blocks, pair(at_root(size), _EVEN), scattered(even, root_block), calls("scatter", root), apart,
        (parts.scattered(even),),
        lambda case, memory: into_block(even)(case, memory) if case.is_root else (memory, memory), rooted=True,
    ),
    "scatter_v": Collective(
        blocks, pair(at_root(size), _UNEVEN), scattered(uneven, root_block), scatter_v, apart,
        (parts.scattered(uneven),), rooted=True,
    ),
    "all_to_all": Collective(
        blocks, alike, exchanged(even), calls("all_to_all"), apart, (parts.exchanged(even),), over_itself
    ),
    "all_to_all_v": Collective(
        blocks, alike, exchanged(uneven), calls("all_to_all_v", own_counts), apart, (parts.exchanged(uneven),)
    ),
    "collective_permute": Collective(
        whole, alike, of_rank(before), calls("collective_permute", to_the_next), along, (parts.whole_of(before),)
    ),
}  # fmt: skip
