"""collective_permute and halo_exchange, as explored ranks call it."""

from dataclasses import dataclass

import numpy as np

from shmcoll.collectives import ROUTINES
from shmcoll.collectives.collective_permute import NOBODY, SOURCE, TARGET
from shmcoll.collectives.halo_exchange import AXES, TABLE
from shmcoll.engine import atomics
from shmcoll.engine import context as c
from tests.schedule.explorer.calls import Call, _expect, _expected, _fill, value
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.stand_ins import WORD


@dataclass(frozen=True)
class Permute(Call):
    """Each rank sends to the one of `targets` at its place, or to NOBODY. `alone`: only this rank works in place."""

    words: int
    targets: tuple[int, ...]
    in_place: bool = False
    alone: int = -1

    def run(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words)
        rank.view(c.OUT, self._place(rank), self.words)
        rank.set(SOURCE, self._source(rank.number))
        rank.set(TARGET, self.targets[rank.number])
        return rank.enter(ROUTINES["collective_permute"])

    def check(self, rank: Rank, number: int) -> None:
        source = self._source(rank.number)
        wanted = [0 if source == NOBODY else value(source, number, i) for i in range(self.words)]
        _expect(rank, number, self._place(rank), wanted)

    def _place(self, rank: Rank) -> int:
        return rank.x if self.in_place or rank.number == self.alone else rank.out

    def _source(self, rank: int) -> int:
        return self.targets.index(rank) if rank in self.targets else NOBODY


@dataclass(frozen=True)
class Exchange(Call):
    """Each rank has the array of the one of `shapes` at its place. `unlike`: their faces are, and all find it."""

    dims: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    width: int = 1
    is_periodic: bool = False
    unlike: bool = False

    def run(self, rank: Rank, number: int) -> int:
        shape = self.shapes[rank.number]
        _fill(rank, number, int(np.prod(shape)))
        rank.view(c.OUT, rank.x, int(np.prod(shape)))
        rank.set(c.X + c.DIMENSIONS, len(shape))
        for i, extent in enumerate(shape):
            atomics.poke(rank.dims + i * WORD, extent)
        for i, word in enumerate(self._table()):
            atomics.poke(rank.table + i * WORD, word)
        rank.set(c.ARGUMENT, 0)
        rank.set(c.ARGUMENT_2, self.width)
        rank.set(AXES, len(self.dims))
        rank.set(TABLE, rank.table)
        status = rank.enter(ROUTINES["halo_exchange"])
        return _expected(c.MISMATCH, status) if self.unlike else status

    def check(self, rank: Rank, number: int) -> None:
        arrays = [
            np.array([value(r, number, i) for i in range(np.prod(shape))]).reshape(shape)
            for r, shape in enumerate(self.shapes)
        ]
        if not self.unlike:
            for axis in range(len(self.dims)):
                arrays = [self._after(arrays, r, axis) for r in range(len(arrays))]
        _expect(rank, number, rank.x, arrays[rank.number].reshape(-1).tolist())

    def _table(self) -> tuple[int, ...]:
        rows = [
            (i, ranks, int(np.prod(self.dims[i + 1 :])), int(self.is_periodic)) for i, ranks in enumerate(self.dims)
        ]
        return tuple(word for row in rows for word in row)

    def _after(self, arrays: list[np.ndarray], rank: int, axis: int) -> np.ndarray:
        """The array of a rank after the exchange along one axis."""
        coords = list(np.unravel_index(rank, self.dims))
        layers = list(np.moveaxis(arrays[rank], axis, 0))
        for side, here, there in (
            (-1, slice(0, self.width), slice(-2 * self.width, -self.width)),
            (1, slice(-self.width, None), slice(self.width, 2 * self.width)),
        ):
            place = int(coords[axis]) + side
            if self.is_periodic or 0 <= place < self.dims[axis]:
                at = [*coords[:axis], place % self.dims[axis], *coords[axis + 1 :]]
                theirs = arrays[int(np.ravel_multi_index(at, self.dims))]
                layers[here] = list(np.moveaxis(theirs, axis, 0))[there]
        return np.moveaxis(np.array(layers), 0, axis)
