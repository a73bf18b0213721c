"""From the parts that a rank has to write (`collectives/parts.py`) to steps, for one way of reading and writing.

Pieces are memory that the cache of a core holds. Sums go through them: the elements of a peer that the kernel reads go
into one, sums of more than two ranks are made in one, and so are sums that pass the caches. Cells are pieces as well: a
rank that sends copies its elements into one, and a rank that gets some takes them from one. The next elements have the
same place. So in a list that is timed, no element comes from a peer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np

from shmbench.cli.options import READS
from shmbench.collectives import Case
from shmbench.collectives.parts import Part, Parts, Source, reduced_at_root
from shmbench.timing.steps import COPY, READ, REDUCE, STREAM, Step
from shmcoll.engine.kernels import kernels
from shmcoll.engine.kernels.dtypes import BY_NUMPY

PIECE_BYTES = 64 << 10
MOST_READ = 1 << 30  # of one system call

LOADS, CELLS = "loads", "cells"  # where peers' elements come from, or READS
Places = Sequence[Mapping[str, int]]  # of the ranks: the addresses of their arrays


class Way(NamedTuple):
    """Where the elements of peers come from, whether stores pass the caches, and which parts the ranks have."""

    source: str
    streams: bool
    parts: Parts

    def __str__(self) -> str:
        where = ", all at the root" if self.parts is reduced_at_root else ""
        return f"{self.source}, {'past' if self.streams else 'through'} the caches{where}"


@dataclass(frozen=True)
class Made:
    """The steps of a rank for a pair of arrays. fetches: steps that bring the elements of peers to where `steps` find
    them, if they have a place each: `apart`, which must live as long."""

    steps: list[Step]
    fetches: list[Step]
    apart: np.ndarray


class _Found(NamedTuple):
    """Elements of a source: their address, and how far the next ones are: 0 in a cell."""

    source: Source
    address: int
    item: int


class Maker:
    """Makes the steps of a rank, which live as long as this. processes: of all ranks."""

    def __init__(self, case: Case, way: Way, processes: Sequence[int]):
        self._case, self._way, self._processes = case, way, processes
        self._item = case.dtype.itemsize
        wide = BY_NUMPY[case.dtype].accumulator
        self._piece = PIECE_BYTES // wide.itemsize  # elements
        self._joins_first = wide == case.dtype and case.op != "avg"
        self._pieces = np.zeros((5, PIECE_BYTES), np.uint8)
        *self._incoming, self._outgoing, self._sum, self._result = (piece.ctypes.data for piece in self._pieces)

    def made(self, parts: Sequence[Part], sent: Sequence[Part], places: Places, *, checked: bool = False) -> Made:
        """Return the steps. sent: what the rank has to put into cells, as parts of its own arrays. checked: the steps
        are to make the right results, so that elements of peers in cells have a place each."""
        moves: list[Step] = []
        sums: list[Step] = []
        fetches: list[Step] = []
        apart = np.empty(sum(map(self._bytes_in_cells, parts)) if checked else 0, np.uint8)
        free = apart.ctypes.data
        for part in parts:
            count, found = part.stop - part.start, []
            for i, source in enumerate(part.sources):
                address, item = places[source.rank][source.array] + source.start * self._item, self._item
                if self._comes(source, CELLS) and checked:
                    fetches += self._by_kernel(free, source, address, count * self._item)
                    address, free = free, free + count * self._item
                elif self._comes(source, CELLS):
                    address, item = self._incoming[i % 2], 0
                found.append(_Found(source, address, item))
            target = places[self._case.rank][part.array] + part.start * self._item
            if len(found) == 1:
                moves += self._moved(target, found[0], count)
            else:
                sums += self._sums(target, found, count)
        # In place a rank has just sent what it overwrites
        both = chain.from_iterable(zip_longest(self._sent(sent, places), moves))
        return Made([*sums, *(step for step in both if step)], fetches, apart)

    def _bytes_in_cells(self, part: Part) -> int:
        return (part.stop - part.start) * self._item * sum(self._comes(source, CELLS) for source in part.sources)

    def _comes(self, source: Source, way: str) -> bool:
        """Return whether these are elements of a peer, which come in this way."""
        return source.rank != self._case.rank and self._way.source == way

    def _sent(self, sent: Sequence[Part], places: Places) -> Iterator[Step]:
        for part in sent if self._way.source == CELLS else ():
            address = places[self._case.rank][part.array]
            for start in range(part.start, part.stop, self._piece):
                length = min(self._piece, part.stop - start) * self._item
                yield (COPY, 0, self._outgoing, 0, address + start * self._item, length)

    def _moved(self, target: int, found: _Found, count: int) -> Iterator[Step]:
        if self._comes(found.source, READS):
            yield from self._by_kernel(target, found.source, found.address, count * self._item)
            return
        each = self._piece if self._way.source == CELLS else max(count, 1)
        for done in range(0, count, each):
            length = min(each, count - done) * self._item
            source = found.address + done * found.item
            yield (STREAM if self._way.streams else COPY, 0, target + done * self._item, 0, source, length)

    def _by_kernel(self, target: int, source: Source, address: int, length: int) -> Iterator[Step]:
        process = self._processes[source.rank]
        for done in range(0, length, MOST_READ):
            yield (READ, process, target + done, 0, address + done, min(MOST_READ, length - done))

    def _sums(self, target: int, sources: Sequence[_Found], count: int) -> Iterator[Step]:
        for done in range(0, count, self._piece):
            pieces = [(one.source, one.address + done * one.item) for one in sources]
            yield from self._sum_of_pieces(target + done * self._item, pieces, min(self._piece, count - done))

    def _sum_of_pieces(self, target: int, sources: Sequence[tuple[Source, int]], count: int) -> Iterator[Step]:
        """Reduce as many elements as fit a piece. The first two are joined, unless the sum has to be wider."""
        result = self._result if self._way.streams else target
        last = len(sources) - 1
        joins = last == 1 or self._joins_first
        accumulator = 0
        for i, (source, address) in enumerate(sources):
            if self._comes(source, READS):
                piece = self._incoming[i % 2]
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
