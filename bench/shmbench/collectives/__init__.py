"""The collectives to measure: `table` has the functions of `Collective` for each, `payload` has inputs and results,
`parts` what they cannot avoid to copy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shmbench.collectives.payload import Segment, pattern

if TYPE_CHECKING:
    from shmbench.collectives.parts import Part

# Input and output of a call; None if a rank has none. A list of them is used in turn.
Buffers = list[tuple[np.ndarray | None, np.ndarray | None]]


@dataclass(frozen=True)
class Counts:
    """Two columns, in elements: `count`, as in the argument of the call, and `size`, from which the bandwidth is
    computed."""

    count: int
    size: int


@dataclass(frozen=True)
class Case:
    """One row of the table, on one rank."""

    dtype: np.dtype
    op: str
    root: int
    rank: int
    ranks: int
    counts: Counts
    in_place: bool = False
    algorithm: str | None = None

    @property
    def is_root(self) -> bool:
        return self.rank == self.root

    def sent(self, rank: int, seq: int, start: int = 0) -> np.ndarray:
        """Return the pattern that `rank` sends in call `seq`, from its element `start` on."""
        return pattern(self.dtype, self.op, self.ranks, rank, seq, start)


@dataclass(frozen=True)
class Collective:
    """A collective, as the harness uses it.

    counts(elements, ranks)             the counts that come closest to a size of this number of elements
    lengths(case)                       elements of this rank's input and of its output; 0 if it has none
    expected(case, seq)                 the right contents of this rank's output after call `seq`; [] if it has none
    run(comm, case, buffers, n)         n calls over the buffers in turn, and nothing else: this is timed
    bus_factor(ranks)                   bus bandwidth over algorithm bandwidth, by the definitions of nccl-tests
    parts                               functions, each of which returns what this rank has to write at least, and of
                                        what, as parts(case): see `parts.py`. Several: the work can be divided in ways
    in_place(case, memory)              input and output as parts of one array, which is as long as the longer of them
    """

    counts: Callable[[int, int], Counts]
    lengths: Callable[[Case], tuple[int, int]]
    expected: Callable[[Case, int], list[Segment]]
    run: Callable[[Any, Case, Buffers, int], None]
    bus_factor: Callable[[int], float]
    parts: "Sequence[Callable[[Case], list[Part]]]"
    in_place: Callable[[Case, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None  # None: there is no such form
    out_of_place: bool = True  # the collective has a form with an output apart from the input
    reduces: bool = False  # the op column has a meaning
    rooted: bool = False  # the root column has a meaning
    sized: bool = True  # sizes have a meaning
