"""What each rank cannot avoid to read and to write in a collective, if every byte is copied once.

A rank writes parts of its arrays. Each part is a copy of the elements of one rank, or the reduction of those of several
ranks. Other libraries, and shmcoll for short arrays, copy more: a copy into shared memory and one out of it. No library
that leaves its arrays where they are can do with less. `timing/limit.py` measures how long it takes.

Reductions divide the work: each rank reduces its part of the elements, from the inputs of all ranks, and copies the
other parts of the result, if it gets a result. A rank that gets none puts its part into an array of its own, `sums`.
Rank r of a scan adds its input to the result of rank r - 1.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from shmbench.collectives import Case
from shmbench.collectives.lengths import Lengths, place, received_counts, sent_counts, size

X, OUT, SUMS = "x", "out", "sums"  # the arrays of a rank: input, output, a part of a sum for others


@dataclass(frozen=True)
class Source:
    """Elements of an array of a rank, from `start` on."""

    rank: int
    start: int = 0
    array: str = X


@dataclass(frozen=True)
class Part:
    """Elements `start` to `stop` of an array of this rank, which are written once: from one source a copy, from several
    their reduction."""

    start: int
    stop: int
    sources: Sequence[Source]
    array: str = OUT


Parts = Callable[[Case], list[Part]]  # of this rank


def ranks_of(case: Case) -> range:
    return range(case.ranks)


def share(case: Case, rank: int) -> slice:
    """Return the elements that `rank` reduces for all."""
    n = size(case)
    return slice(rank * n // case.ranks, (rank + 1) * n // case.ranks)


def longest_share(case: Case) -> int:
    return -(-size(case) // case.ranks)


def inputs(case: Case, start: int = 0) -> list[Source]:
    """Return the input of every rank. This rank comes last: its result may replace its input."""
    return [Source((case.rank + 1 + i) % case.ranks, start) for i in ranks_of(case)]


def parts_for_others(parts: Parts, case: Case) -> list[Part]:
    """Return the parts of this rank's input that other ranks need, each once."""
    found = {}
    for rank in ranks_of(case):
        for part in parts(replace(case, rank=rank)) if rank != case.rank else ():
            for source in part.sources:
                if source.rank == case.rank and source.array == X:
                    stop = source.start + part.stop - part.start
                    found[source.start, stop] = Part(source.start, stop, [], X)
    return list(found.values())


# --- moves ------------------------------------------------------------------------------------------------------------


def whole_of(rank: Callable[[Case], int]) -> Parts:
    """Return the parts of a rank that gets the whole input of another one, or has it already."""

    def parts(case: Case) -> list[Part]:
        source = rank(case)
        return [] if case.in_place and source == case.rank else [Part(0, size(case), [Source(source)])]

    return parts


def gathered(lengths: Lengths) -> Parts:
    """Return the parts of a rank that gets the inputs of all ranks."""

    def parts(case: Case) -> list[Part]:
        places = [(rank, place(lengths(case), rank)) for rank in ranks_of(case)]
        return [Part(p.start, p.stop, [Source(rank)]) for rank, p in places if not _is_there(case, rank)]

    return parts


def scattered(lengths: Lengths) -> Parts:
    """Return the parts of a rank that gets its block of the root's input."""

    def parts(case: Case) -> list[Part]:
        p = place(lengths(case), case.rank)
        return [] if _is_there(case, case.root) else [Part(0, p.stop - p.start, [Source(case.root, p.start)])]

    return parts


def exchanged(lengths: Lengths) -> Parts:
    """Return the parts of a rank that gets a block of every rank."""

    def parts(case: Case) -> list[Part]:
        found = []
        for rank in ranks_of(case):
            target = place(received_counts(case, lengths), rank)
            source = place(sent_counts(case, rank, lengths), case.rank)
            if not _is_there(case, rank):
                found.append(Part(target.start, target.stop, [Source(rank, source.start)]))
        return found

    return parts


def _is_there(case: Case, rank: int) -> bool:
    """Return whether a block of `rank` is in its place already: in place, this rank's own."""
    return case.in_place and rank == case.rank


def only_root(parts: Parts) -> Parts:
    return lambda case: parts(case) if case.is_root else []


# --- reductions -------------------------------------------------------------------------------------------------------


def all_reduced(case: Case) -> list[Part]:
    """Return the parts of all_reduce."""
    mine = share(case, case.rank)
    return [Part(mine.start, mine.stop, inputs(case, mine.start)), *_of_others(case, OUT)]


def reduced(case: Case) -> list[Part]:
    """Return the parts of reduce."""
    mine = share(case, case.rank)
    if case.is_root:
        return [Part(mine.start, mine.stop, inputs(case, mine.start)), *_of_others(case, SUMS)]
    return [Part(0, mine.stop - mine.start, inputs(case, mine.start), SUMS)]


def reduced_at_root(case: Case) -> list[Part]:
    """Return the parts of reduce if the root does all of it. The others may write less then."""
    return [Part(0, size(case), inputs(case))] if case.is_root else []


def _of_others(case: Case, array: str) -> Iterable[Part]:
    """Return the parts that the other ranks reduce."""
    for rank in ranks_of(case):
        p = share(case, rank)
        if rank != case.rank:
            yield Part(p.start, p.stop, [Source(rank, p.start if array == OUT else 0, array)])


def reduced_blocks(lengths: Lengths) -> Parts:
    """Return the parts of reduce_scatter."""

    def parts(case: Case) -> list[Part]:
        p = place(lengths(case), case.rank)
        return [Part(0, p.stop - p.start, inputs(case, p.start))]

    return parts


def scanned(case: Case) -> list[Part]:
    """Return the parts of scan."""
    if case.rank == 0:
        return whole_of(lambda case: 0)(case)
    return [Part(0, size(case), [Source(case.rank - 1, array=OUT), Source(case.rank)])]


def scanned_before(case: Case) -> list[Part]:
    """Return the parts of exscan."""
    before = case.rank - 1
    if case.rank < 2:
        return [Part(0, size(case), [Source(before)])] if case.rank else []
    return [Part(0, size(case), [Source(before, array=OUT), Source(before)])]
