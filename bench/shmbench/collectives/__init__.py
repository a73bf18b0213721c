"""What is measured: one file a collective, each with the functions of `Collective` in the same order."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from shmbench.payload import Segment, pattern

Buffers = list[tuple[np.ndarray, np.ndarray | None]]  # (input, output or None where a rank gets none) to use in turn


@dataclass(frozen=True)
class Counts:
    """Elements: `count` is the column; a rank's input holds `send`, the largest output `receive`, which is the size."""

    count: int
    send: int
    receive: int


@dataclass(frozen=True)
class Case:
    """One row of the table, as one rank sees it."""

    dtype: np.dtype
    op: str
    root: int
    rank: int
    ranks: int
    counts: Counts
    in_place: bool = False

    def sent(self, rank: int, seq: int, start: int = 0) -> np.ndarray:
        """The pattern that `rank` sends in call `seq`, from its element `start` on."""
        return pattern(self.dtype, self.op, self.ranks, rank, seq, start)


@dataclass(frozen=True)
class Collective:
    """A collective as the harness needs it.

    counts(elements, ranks)             the counts that come closest to a size of so many elements
    expected(case, seq)                 what this rank's output must hold after call `seq`; [] where it gets none
    run(comm, case, buffers, n)         n calls over the buffers in turn, and nothing else: this is what is timed
    bus_factor(ranks)                   bus bandwidth over algorithm bandwidth, by the definitions of nccl-tests
    """

    counts: Callable[[int, int], Counts]
    expected: Callable[[Case, int], list[Segment]]
    run: Callable[[Any, Case, Buffers, int], None]
    bus_factor: Callable[[int], float]
    reduces: bool = False  # the op column means something
    rooted: bool = False  # the root column does
    in_place: bool = False  # there is a form that overwrites its input
    sized: bool = True  # sizes mean something


def find(name: str) -> Collective:
    """The collective (or limit) called `name`."""
    found = import_module(f"shmbench.collectives.{name}").COLLECTIVE
    assert isinstance(found, Collective)
    return found


def blocks(elements: int, ranks: int) -> Counts:
    """Counts where `size` is all blocks together: equal ones, and never empty."""
    block = max(1, elements // ranks)
    return Counts(count=block, send=block * ranks, receive=block * ranks)
