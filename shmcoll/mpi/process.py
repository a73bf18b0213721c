"""This process as a process of MPI: from MPI_Init to MPI_Finalize, and what is there from the start.
A session begins without MPI_Init.

MPI_Finalize waits for all ranks, as MPI lets a rank use what others have until they have ended. After an exception that
has ended the program, nobody waits: the others learn from shmcoll why.
"""

import atexit
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import shmcoll
from shmcoll.engine.system import log
from shmcoll.engine.system.switches import is_on
from shmcoll.errors import ShmcollError
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects import handles, leftovers
from shmcoll.mpi.objects.communicators import Comm, Group
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.handles import COMM, GROUP
from shmcoll.mpi.objects.processes import Processes
from shmcoll.mpi.objects.scratch import POOL
from shmcoll.startup import children, greeting, orders


class Process:
    """What the environment functions say. thread: the one that has called MPI_Init. known: the processes that this one
    knows. number: of this program among those that were spawned together. parent: MPI_Comm_get_parent. born: called
    with the port of the parents when a process that has parents joins.
    """

    def __init__(self) -> None:
        self.is_initialized = self.is_finalized = False
        self.thread = 0
        self.rank = 0  # in the job
        self.known: Processes
        self.number = 0
        self.parent: Comm | None = None
        self.born: Callable[[str], Comm]
        self._world: Comm | None = None
        self._pid = 0

    def start(self) -> None:
        """Begin MPI_COMM_WORLD's time."""
        if self.is_initialized:
            raise MPIError("MPI_ERR_OTHER", "MPI is initialized already")
        self.join()
        self.is_initialized, self.thread = True, threading.get_ident()

    def join(self) -> None:
        """Join the job, unless this process has."""
        if self._world:
            return
        native = shmcoll.init()
        self.rank = native.rank
        self._pid = os.getpid()
        self._world = Comm(native, native._for_messages(), Group(range(native.size)), name="MPI_COMM_WORLD")
        COMM.add(self._world, c["MPI_COMM_WORLD"])
        alone = native.subgroup([native.rank], name="MPI_COMM_SELF")
        own = Comm(alone, alone._for_messages(), Group([native.rank]), name="MPI_COMM_SELF")
        COMM.add(own, c["MPI_COMM_SELF"])
        GROUP.add(Group([]), c["MPI_GROUP_EMPTY"])
        self.known = Processes(native)
        handles.closed.clear()
        POOL.open(_shared(native))
        atexit.register(self._leave)  # before shmcoll leaves the job, because that was registered before
        self.number = int(os.environ.pop(orders.NUMBER, "0"))
        if port := os.environ.pop(orders.PARENT, None):
            self.parent = self.born(port)

    @property
    def world(self) -> Comm:
        """MPI_COMM_WORLD, also when the program may not use it any more.

        Raises:
            MPIError: this process has not joined the job.
        """
        if self._world is None:
            raise MPIError("MPI_ERR_OTHER", handles.closed[0])
        return self._world

    @property
    def me(self) -> greeting.Process:
        """This process, for others."""
        return self.known.process(self.rank)

    def finish(self) -> None:
        """Leave the job, when all ranks are ready to. No barrier of the program agrees with this one."""
        if self.is_finalized:
            raise MPIError("MPI_ERR_OTHER", "MPI is finalized already")
        sends = self.world.native._compose("MPI_Finalize", _meet)
        self.is_finalized = True
        for line in leftovers.lines(sends):
            log.warning(f"at the end of MPI on rank {self.rank}: {line}")
        handles.closed.append("MPI_Finalize has been called")
        for handle in (c["MPI_COMM_SELF"], c["MPI_COMM_WORLD"]):
            COMM.remove(COMM.find(handle))

    def _leave(self) -> None:
        if os.getpid() != self._pid or self.world.native._dispatcher.failures.has_failed():
            return  # a fork of this rank; or there is nobody to wait for
        if not self.is_finalized:
            try:
                self.finish()
            except ShmcollError as error:
                log.error(str(error))
        children.wait_for_all()


def _meet(parts: Any) -> list[str]:
    """Wait for all ranks. Return what they have not received of the messages of this one, if that is looked for."""
    parts.barrier()
    if not is_on("SHMCOLL_CHECK"):
        return []
    leftovers.note()  # all messages have been sent
    parts.barrier()
    sends = list(leftovers.sends())
    parts.barrier()  # a rank that goes on takes the messages that it has not received
    return sends


def _shared(native: Any) -> Callable[[int], np.ndarray]:
    """Return what allocates shared memory, or private memory if there is none left."""

    def allocate(length: int) -> np.ndarray:
        try:
            return np.asarray(native.empty(length, np.uint8))
        except shmcoll.ArenaError:
            return np.empty(length, np.uint8)

    return allocate


PROCESS = Process()
