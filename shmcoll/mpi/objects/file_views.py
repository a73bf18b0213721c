"""Views of files: which bytes of a file a rank sees, and in which order.

A view begins at a displacement and repeats a filetype without end. The data that a rank sees are the bytes of the
runs of the filetype, one tile behind the other. Positions count in etypes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shmcoll.mpi.objects.datatypes import Datatype


@dataclass(frozen=True)
class View:
    """A view. datarep: the name of how data are stored in the file."""

    displacement: int
    etype: Datatype
    filetype: Datatype
    datarep: str

    def ranges(self, position: int, length: int) -> Iterator[tuple[int, int]]:
        """Yield where in the file bytes of the view are: offsets and lengths. position: the first one, in bytes of the
        view.

        Cost: O(runs) once, and O(1) for each range.
        """
        filetype = self.filetype
        if length <= 0 or filetype.size == 0:
            return
        if filetype.is_contiguous:
            yield self.displacement + position, length
            return
        runs = filetype.runs
        ends = np.cumsum(runs.lengths)
        tile, within = divmod(position, filetype.size)
        i = int(np.searchsorted(ends, within, side="right"))
        skipped = within - int(ends[i] - runs.lengths[i])
        while length > 0:
            part = min(int(runs.lengths[i]) - skipped, length)
            yield self.displacement + tile * filetype.extent + int(runs.offsets[i]) + skipped, part
            length, skipped, i = length - part, 0, i + 1
            if i == len(ends):
                tile, i = tile + 1, 0

    def offset(self, position: int) -> int:
        """Return where in the file a byte of the view is."""
        return next(self.ranges(position, 1), (self.displacement, 0))[0]

    def position_of_end(self, size: int) -> int:
        """Return how many bytes of the view are within the first `size` bytes of the file."""
        span = size - self.displacement
        if span <= 0 or self.filetype.size == 0:
            return 0
        if self.filetype.is_contiguous:
            return span
        tile = max(span // self.filetype.extent - 1, 0)
        runs, count = self.filetype.runs, tile * self.filetype.size
        while (start := tile * self.filetype.extent) < span:
            count += int(np.clip(span - start - runs.offsets, 0, runs.lengths).sum())
            tile += 1
        return count
