"""Contiguous runs of bytes, in the order in which they are packed. Each holds elements of one basic type.

Neighbours of one basic type are one run. Cost: O(runs) with numpy; what would have more than `MOST` is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shmcoll.engine.kernels.runs import ROW_WORDS
from shmcoll.mpi.objects.errors import MPIError

MOST = 1 << 28


@dataclass(frozen=True)
class Runs:
    """basics: the number of each run's basic type in `datatypes.BASICS`."""

    offsets: np.ndarray
    lengths: np.ndarray
    basics: np.ndarray

    @property
    def bytes(self) -> int:
        return int(self.lengths.sum())

    def moved(self, by: int) -> "Runs":
        return Runs(self.offsets + by, self.lengths, self.basics)

    def blocks(self, extent: int, lengths: np.ndarray, displacements: np.ndarray) -> "Runs":
        """Return these runs, those of an element, once for each element of blocks.

        Args:
            extent: bytes from one element of a block to the next.
            lengths: how many elements the blocks have.
            displacements: where the blocks begin.
        """
        if not len(self.offsets):
            return self
        if len(self.offsets) == 1 and self.lengths[0] == extent:  # a block is a run
            basics = np.full(len(lengths), self.basics[0])
            return Runs(displacements + self.offsets[0], lengths * extent, basics).merged()
        total = int(lengths.sum())
        check_number(total * len(self.offsets))
        within = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        starts = np.repeat(displacements, lengths) + within * extent
        offsets = (starts[:, None] + self.offsets[None, :]).ravel()
        return Runs(offsets, np.tile(self.lengths, total), np.tile(self.basics, total)).merged()

    def merged(self) -> "Runs":
        """Join each run to the one before it, where that ends where it begins and has the same basic type."""
        some = self.lengths > 0
        offsets, lengths, basics = self.offsets[some], self.lengths[some], self.basics[some]
        if len(offsets) < 2:
            return Runs(offsets, lengths, basics)
        joins = (offsets[1:] == offsets[:-1] + lengths[:-1]) & (basics[1:] == basics[:-1])
        if not joins.any():
            return Runs(offsets, lengths, basics)
        firsts = _firsts(joins)
        return Runs(offsets[firsts], np.add.reduceat(lengths, firsts), basics[firsts])

    def begin(self, length: int) -> "Runs":
        """Return the runs of the first `length` packed bytes."""
        kept = np.clip(length - (np.cumsum(self.lengths) - self.lengths), 0, self.lengths)
        return Runs(self.offsets, kept, self.basics).merged()

    def as_bytes(self) -> "Runs":
        """Return these runs as if all were of one basic type: the fewest."""
        if len(self.basics) < 2 or (self.basics == self.basics[0]).all():
            return self  # merged already
        return Runs(self.offsets, self.lengths, np.zeros_like(self.basics)).merged()

    def rows(self) -> np.ndarray:
        """Return the table of `engine/kernels/runs.py`: equally long runs at equal distances are a row.

        A distance that differs from those before and behind it ends a row, as at the end of a matrix's row.
        """
        runs = self.as_bytes()
        offsets, lengths = runs.offsets, runs.lengths
        table = np.zeros((len(offsets), ROW_WORDS), np.int64)
        if not len(offsets):
            return table
        steps = offsets[1:] - offsets[:-1]
        if (steps == steps[:1]).all() and (lengths == lengths[0]).all():
            table[0] = offsets[0], lengths[0], steps[0] if len(steps) else 0, len(offsets)
            return table[:1]
        alike = lengths[1:] == lengths[:-1]
        same = np.zeros(len(steps) + 1, bool)  # whether a distance is that before it
        same[1:-1] = (steps[1:] == steps[:-1]) & alike[1:] & alike[:-1]
        is_alone = ~same[:-1] & ~same[1:]
        follows = np.concatenate(([True], is_alone[:-1]))  # the distance before it belongs to no row
        firsts = _firsts(~is_alone & alike & (same[:-1] | follows))
        table = table[: len(firsts)]
        table[:, 0], table[:, 1] = offsets[firsts], lengths[firsts]
        table[:, 2] = np.concatenate((steps, [0]))[firsts]
        table[:, 3] = np.diff(np.append(firsts, len(offsets)))
        return table


def _firsts(joins: np.ndarray) -> np.ndarray:
    """Return the numbers of those that do not join the one before."""
    return np.flatnonzero(np.concatenate(([True], ~joins)))


def check_number(number: int) -> None:
    """Refuse so many runs."""
    if number > MOST:
        raise MPIError("MPI_ERR_NO_MEM", f"a datatype of {number} separate runs is more than {MOST}")


def joined(parts: Sequence[Runs]) -> Runs:
    """Return the runs of several, one after the other."""
    if not parts:
        return NO_RUNS
    fields = (np.concatenate([getattr(one, name) for one in parts]) for name in ("offsets", "lengths", "basics"))
    return Runs(*fields).merged()


def one_run(length: int, basic: int) -> Runs:
    return Runs(*(np.array([value], np.int64) for value in (0, length, basic)))


NO_RUNS = Runs(*(np.zeros(0, np.int64) for _ in range(3)))
