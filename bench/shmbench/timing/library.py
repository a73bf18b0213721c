"""The library under test, on the side of the harness. shmcoll is one; `bench/peers` has others."""

from typing import Any, Protocol

import numpy as np

from shmbench.collectives import Collective
from shmbench.collectives.table import COLLECTIVES


class Library(Protocol):
    """The interface that a library needs in order to be measured."""

    name: str
    version: str
    rank: int
    size: int
    comm: Any  # the first argument of `Collective.run`

    def barrier(self) -> None:
        """Return when all ranks have called it."""

    def exchange(self, values: np.ndarray) -> np.ndarray:
        """Return every rank's 1-D float64 `values`, as rows in rank order, on every rank."""

    def collective(self, name: str) -> Collective:
        """Return the collective called `name`, with a `run` for this library."""


class Shmcoll:
    """shmcoll itself; joins the job."""

    name = "shmcoll"

    def __init__(self) -> None:
        import shmcoll

        self.version = shmcoll.__version__
        self.comm = shmcoll.init()
        self.rank = self.comm.rank
        self.size = self.comm.size

    def barrier(self) -> None:
        self.comm.barrier()

    def exchange(self, values: np.ndarray) -> np.ndarray:
        return self.comm.all_to_all(np.tile(values, (self.size, 1)))

    def collective(self, name: str) -> Collective:
        return COLLECTIVES[name]
