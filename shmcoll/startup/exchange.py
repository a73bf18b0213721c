"""The exchanges of ranks over MPI while they join, each within a limit.

A rank waits in an exchange for all ranks. One that does not join, or cannot be reached, is an error on the others after
`patience` seconds, and nobody waits forever: no call here blocks. The end of MPI has a limit then, too.

Requests of an exchange that has failed are kept with their memory, because MPI may still write it.
"""

import os
import pickle
import socket
import time
from typing import Any

import numpy as np

from shmcoll.errors import ShmcollError
from shmcoll.nodes.mpi import mpi_end

_AWAKE = 5e-3  # seconds before a rank sleeps between two looks
_NAP = 5e-4  # seconds

_abandoned: list[Any] = []


class Exchange:
    """The exchanges of the ranks of an MPI communicator."""

    def __init__(self, mpi: Any, comm: Any, patience: float):
        self._mpi, self._comm, self._patience = mpi, comm, patience

    def within(self, comm: Any) -> "Exchange":
        """Return the exchanges of some of these ranks, which are those of another communicator."""
        return Exchange(self._mpi, comm, self._patience)

    def duplicate(self) -> Any:
        """Return a duplicate of the communicator."""
        made, request = self._comm.Idup()
        self._wait(request, made)
        return made

    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, by rank."""
        mine = np.frombuffer(pickle.dumps(value), np.uint8)
        lengths = np.empty(self._comm.Get_size(), np.int64)
        own = np.array([mine.size], np.int64)
        self._wait(self._comm.Iallgather(own, lengths), own, lengths)
        told = np.empty(lengths.sum(), np.uint8)
        self._wait(self._comm.Iallgatherv(mine, [told, lengths.tolist(), None, self._mpi.BYTE]), mine, told)
        return [pickle.loads(one.tobytes()) for one in np.split(told, np.cumsum(lengths)[:-1])]

    def barrier(self) -> None:
        """Wait until all ranks have arrived here."""
        self._wait(self._comm.Ibarrier())

    def _wait(self, request: Any, *memory: Any) -> None:
        begun = time.monotonic()
        try:
            while not request.Test():
                waited = time.monotonic() - begun
                if waited > self._patience:
                    raise self._late()
                time.sleep(_NAP if waited > _AWAKE else 0)
        except BaseException:
            _abandoned.append((request, memory))
            raise

    def _late(self) -> ShmcollError:
        mpi_end.may_take(self._patience)
        return ShmcollError(
            f"process {os.getpid()} on {socket.gethostname()}, rank {self._comm.Get_rank()} of "
            f"{self._comm.Get_size()}, has waited {self._patience:g} s for all ranks to join: one has not called "
            f"init() or from_mpi(), or a node or its link is down. Start all ranks, or raise SHMCOLL_JOIN_TIMEOUT"
        )
