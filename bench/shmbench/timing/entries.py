"""Entries from arrays to arrays. The collectives of shmbench are among them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from shmbench.collectives import Case, Collective, Counts
from shmbench.collectives.payload import Segment, fill, pattern, spoil, wrong
from shmbench.collectives.table import COLLECTIVES
from shmbench.timing.measure import sized


@dataclass(frozen=True)
class Arrays:
    """A call made `n` times by `loop`, from `x` to `out`. They are None if a rank has none, and the same array in
    place."""

    loop: Callable[[int], float | None]
    x: np.ndarray | None
    out: np.ndarray | None
    sent: Callable[[int], np.ndarray]
    due: Callable[[int], list[Segment]]

    def refill(self, seq: int) -> None:
        if self.out is not None and self.out is not self.x:
            spoil(self.out, self.due(seq))
        if self.x is not None:
            fill(self.x, self.sent(seq))

    def run(self, n: int) -> float | None:
        return self.loop(n)

    def mistakes(self, seq: int) -> int:
        if self.out is not None and self.out is self.x:  # the timed calls have overwritten the input: once more
            self.refill(seq)
            self.loop(1)
        return 0 if self.out is None else wrong(self.out, self.due(seq))


def collective(
    comm: Any,
    name: str,
    size: int,
    dtype: Any = np.float32,
    *,
    shared: bool = False,
    in_place: bool = False,
    loop: Callable[[Any, Any], Callable[[int], None]] | None = None,
    kind: Collective | None = None,
) -> Arrays:
    """Return the collective `name` of an array of `size` bytes: sums, root 0. `loop(x, out)`: another way to call.
    kind: what is not in the table: a collective of another library, whose communicator `comm` is, or the memory
    alone."""
    kind, dtype = kind or COLLECTIVES[name], np.dtype(dtype)
    (case,) = sized(kind, Case(dtype, "sum", 0, comm.rank, comm.size, Counts(0, 0), in_place), [size])
    lengths, make = kind.lengths(case), comm.empty if shared else np.empty
    x: np.ndarray | None
    out: np.ndarray | None
    if in_place:
        assert kind.in_place
        x, out = kind.in_place(case, make(max(lengths), dtype))
    else:
        x, out = (make(length, dtype) if length else None for length in lengths)
    run = loop(x, out) if loop else partial(kind.run, comm, case, [(x, out)])
    return Arrays(run, x, out, partial(case.sent, case.rank), partial(kind.expected, case))


def exchange(rank: int, ranks: int, x: np.ndarray, out: np.ndarray, loop: Callable[[int], float | None]) -> Arrays:
    """Return the entry in which each rank gets the `x` of its partner in its `out`: ranks 0 and 1 are partners, 2 and
    3, and so on."""

    def of(rank: int, seq: int) -> np.ndarray:
        return pattern(x.dtype, "none", ranks, rank, seq)

    return Arrays(loop, x, out, partial(of, rank), lambda seq: [Segment(0, out.size, of(rank ^ 1, seq))])
