"""From the parts that a rank has to write (`collectives/parts.py`) to steps, for one way of reading and writing.

Sums go through pieces that fit the cache of a core: the elements of a peer that the kernel reads go into one, sums of
more than two ranks are made in one, and so are sums that pass the caches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shmbench.cli.options import READS
from shmbench.collectives import Case
from shmbench.collectives.parts import Part, Source
from shmbench.timing.steps import COPY, READ, REDUCE, STREAM, Step
from shmcoll.engine.kernels import kernels
from shmcoll.engine.kernels.dtypes import BY_NUMPY

PIECE_BYTES = 64 << 10
MOST_READ = 1 << 30  # of one system call

LOADS, APART = "loads", "apart"  # where peers' elements come from, or READS
Places = Sequence[Mapping[str, int]]  # of the ranks: the addresses of their arrays


class Way(NamedTuple):
    """Where the elements of peers come from, and whether stores pass the caches."""

    source: str
    streams: bool

    def __str__(self) -> str:
        return f"{self.source}, {'past' if self.streams else 'through'} the caches"


@dataclass(frozen=True)
class Made:
    """The steps of a rank for a pair of arrays. fetches: steps that bring the elements of peers to where `steps` find
    them, if they are apart. apart: this memory, which must live as long."""

    steps: list[Step]
    fetches: list[Step]
    apart: np.ndarray


class Maker:
    """Makes the steps of a rank, which live as long as this. processes: of all ranks."""

    def __init__(self, case: Case, way: Way, processes: Sequence[int]):
        self._case, self._way, self._processes = case, way, processes
        self._item = case.dtype.itemsize
        wide = BY_NUMPY[case.dtype].accumulator
        self._piece = PIECE_BYTES // wide.itemsize  # elements
        self._joins_first = wide == case.dtype and case.op != "avg"
        self._pieces = np.zeros((4, PIECE_BYTES), np.uint8)
        *self._read, self._sum, self._result = (piece.ctypes.data for piece in self._pieces)

    def made(self, parts: Sequence[Part], places: Places) -> Made:
        found: list[Step] = []
        fetches: list[Step] = []
        apart = np.ones(
            sum(map(self._apart_bytes, parts)), np.uint8
        )  # not empty: pages that have not been written are one page of zeros
        free = apart.ctypes.data
        for part in parts:
            count, sources = part.stop - part.start, []
            for source in part.sources:
                address = places[source.rank][source.array] + source.start * self._item
                if self._is_apart(source):
                    fetches += self._by_kernel(free, source, address, count * self._item)
                    address, free = free, free + count * self._item
                sources.append((source, address))
            target = places[self._case.rank][part.array] + part.start * self._item
            found += (
                self._moved(target, *sources[0], count) if len(sources) == 1 else self._sums(target, sources, count)
            )
        return Made(found, fetches, apart)

    def _apart_bytes(self, part: Part) -> int:
        return (part.stop - part.start) * self._item * sum(map(self._is_apart, part.sources))

    def _is_apart(self, source: Source) -> bool:
        return source.rank != self._case.rank and self._way.source == APART

    def _is_read(self, source: Source) -> bool:
        return source.rank != self._case.rank and self._way.source == READS

    def _moved(self, target: int, source: Source, address: int, count: int) -> Iterator[Step]:
        if self._is_read(source):
            yield from self._by_kernel(target, source, address, count * self._item)
        else:
            yield (STREAM if self._way.streams else COPY, 0, target, 0, address, count * self._item)

    def _by_kernel(self, target: int, source: Source, address: int, length: int) -> Iterator[Step]:
        process = self._processes[source.rank]
        for done in range(0, length, MOST_READ):
            yield (READ, process, target + done, 0, address + done, min(MOST_READ, length - done))

    def _sums(self, target: int, sources: Sequence[tuple[Source, int]], count: int) -> Iterator[Step]:
        for done in range(0, count, self._piece):
            offset = done * self._item
            pieces = [(source, address + offset) for source, address in sources]
            yield from self._sum_of_pieces(target + offset, pieces, min(self._piece, count - done))

    def _sum_of_pieces(self, target: int, sources: Sequence[tuple[Source, int]], count: int) -> Iterator[Step]:
        """Reduce as many elements as fit a piece. The first two are joined, unless the sum has to be wider."""
        result = self._result if self._way.streams else target
        last = len(sources) - 1
        joins = last == 1 or self._joins_first
        accumulator = 0
        for i, (source, address) in enumerate(sources):
            if self._is_read(source):
                piece = self._read[i % 2]
                yield from self._by_kernel(piece, source, address, count * self._item)
                address = piece
            if i == 0 and joins:
                accumulator = address
                continue
            if i == 0:
                yield (REDUCE, kernels.START, self._sum, 0, address, count)
            elif i == 1 and joins:
                yield (REDUCE, kernels.JOIN, result if last == 1 else self._sum, accumulator, address, count)
            elif i < last:
                yield (REDUCE, kernels.STEP, 0, accumulator, address, count)
            else:
                yield (REDUCE, kernels.FINISH, result, accumulator, address, count)
            accumulator = self._sum
        if self._way.streams:
            yield (STREAM, 0, target, 0, result, count * self._item)
