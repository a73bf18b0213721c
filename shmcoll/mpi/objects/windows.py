"""Windows: memory that other ranks read and write while its rank does something else.

An access is complete when its call returns: the origin makes it alone (`window_memory.py`). So a flush has only to keep
the order of loads and stores, and the target never has to call anything.

The words of a window are in memory that rank 0 shares: of each kind and for each rank as many as there are ranks, of
which rank r writes the r-th one alone.

    LOCK[t]     r's word of the lock of target t (`engine/memory/rank_locks.py`), from MPI_Win_lock to MPI_Win_unlock
    ATOMIC[t]   the same for accumulates at t: each is atomic as a whole. r's threads take turns by a lock of Python,
                and in native code by the GIL (`engine/native/mpi_windows.py`)
    POSTED[o]   how often r has posted for origin o
    DONE[t]     how often r has completed accesses at t

    fence       a barrier: all accesses before it, of all ranks, are before those behind it
    post        POSTED[o] + 1 for each origin o, with release
    start       nothing. Before the first access at t, or in complete: r waits until t's POSTED[r] has passed the number
                of r's epochs at t so far
    complete    DONE[t] + 1 for each target t, with release, after all accesses
    wait, test  r waits until DONE[r] of each origin is r's POSTED[origin]: each origin has ended as many epochs at r as
                r has posted

Nobody resets a counter, so no order of calls can lose one. The group of all ranks makes the words in a collective call,
and they stay until all ranks free the window, which is a barrier.

Who waits looks again and again: for a moment at once, then after short sleeps. It waits for one rank at a time. If that
one has failed, or has left the job, or if the group has ended, the wait raises, and the others learn of it as in every
wait of shmcoll. So an epoch in which a rank dies is told to all who wait for it; a lock that it has held lets nobody in
without that error, because what it guards may be half written. A wait that lasts longer than the limit
(SHMCOLL_TIMEOUT) raises as well. Ranks that lock several targets in different orders wait for each other until then.
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from shmcoll.engine.kernels.dtypes import BY_NUMPY, REDUCTIONS
from shmcoll.engine.kernels.kernels import has_kernel
from shmcoll.engine.memory import rank_locks
from shmcoll.engine.memory.records import how_ended
from shmcoll.engine.native.tables import kernel_slot
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.attributes import Attributes
from shmcoll.mpi.objects.communicators import PROC_NULL, Comm, Group
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.error_handlers import ERRORS_ARE_FATAL, ErrorHandler
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.handles import WIN
from shmcoll.mpi.objects.window_epochs import ATOMIC, DONE, Epochs
from shmcoll.mpi.objects.window_memory import Ended, Target

WORD = 8
_LOOK_NS = 20_000_000  # between two looks whether a rank has failed
_YIELDS, _FIRST_SLEEP, _LONGEST_SLEEP = 20, 1e-5, 1e-3
CREATE, ALLOCATE, DYNAMIC, SHARED = (c[f"MPI_WIN_FLAVOR_{n}"] for n in ("CREATE", "ALLOCATE", "DYNAMIC", "SHARED"))


class Window:
    """A window.

    Args:
        comm: of the ranks; the window has a copy of its own.
        flavor: CREATE, ALLOCATE, DYNAMIC or SHARED.
        allocate: given the native communicator, returns the address and the size of this rank's memory, and the arrays
            that keep it.
        wrong: what is wrong with the arguments of this rank. All ranks come here, and all learn of it.

    Raises:
        MPIError: there is something wrong with the arguments of a rank.
    """

    handle = WIN.null

    def __init__(
        self,
        comm: Comm,
        flavor: int,
        unit: int,
        info: dict[str, str],
        allocate: Callable[[Any], tuple[int, int, Sequence[Any]]],
        wrong: Sequence[MPIError] = (),
    ):
        comm.check_intra()
        self.group: Group = comm.group
        self.flavor = flavor
        self.name = ""
        self.info = dict(info)
        self.errhandler: ErrorHandler = ERRORS_ARE_FATAL
        self.attributes = Attributes()
        self.native = comm.native.dup()
        self.rank, self.size = self.native.rank, self.native.size
        base, size, self._kept = allocate(self.native)
        self._arena = self.native._local_rank.arena
        own = (os.getpid(), self._arena.address, base, size, unit, wrong[0].error_class if wrong else 0)
        told = self.native.all_gather(np.array(own, np.int64)).reshape(-1, len(own)).tolist()
        self._check(wrong, [code for *_, code in told])
        self.targets = [self._target(rank, *one) for rank, (*one, _) in enumerate(told)]
        here = (DONE + 1, self.size, self.size) if self.rank == 0 else 0
        self._words = self.native.views(self.native.zeros(here, np.int64))[0]
        self._turns = [threading.Lock() for _ in told]
        self.attached: dict[int, int] = {}  # of a dynamic window: lengths by address
        self.own_attributes = self._attributes(base, size, unit)
        self.epochs = Epochs(self)

    def native_row(self) -> tuple[int, ...] | None:
        """Return what native functions need; None for a dynamic window, and if accesses are watched."""
        return (
            None
            if self.flavor == DYNAMIC or self.epochs.conflicts
            else (self.epochs.table.ctypes.data, self.native._dispatcher.words.ctypes.data, self.rank, self.size)
        )

    def _check(self, wrong: Sequence[MPIError], codes: Sequence[int]) -> None:
        """Raise on all ranks if there is something wrong on one. codes: the classes of the errors, or 0, by rank."""
        if not any(codes):
            return
        texts = self.native.all_gather_object(str(wrong[0]) if wrong else "")
        self.native.close()
        if wrong:
            raise wrong[0]
        rank, code = next((rank, code) for rank, code in enumerate(codes) if code)
        raise MPIError(code, f"rank {rank}: {texts[rank]}")

    def _target(self, rank: int, pid: int, arena: int, base: int, size: int, unit: int) -> Target:
        inside = range(arena, arena + self._arena.size)
        return Target(rank, pid, inside, self._arena.address - arena, base, size, unit)

    def _attributes(self, base: int, size: int, unit: int) -> dict[int, int]:
        self._numbers = {
            "SIZE": ctypes.c_ssize_t(size),
            "DISP_UNIT": ctypes.c_int(unit),
            "CREATE_FLAVOR": ctypes.c_int(self.flavor),
            "MODEL": ctypes.c_int(c["MPI_WIN_UNIFIED"]),
        }
        places = {c[f"MPI_WIN_{name}"]: ctypes.addressof(number) for name, number in self._numbers.items()}
        return {c["MPI_WIN_BASE"]: base} | places

    @property
    def in_words(self) -> str:
        return self.name or f"window {self.handle & 0xFFFFFFFF:#x}"

    def free(self) -> None:
        """Leave the window, when all ranks do."""
        self.epochs.check_none("MPI_Win_free")
        self.attributes.clear(self)
        self.native.barrier()
        WIN.remove(self)
        self.native.close()
        self._words, self._kept = np.zeros(0), ()

    def words(self, kind: int, other: int) -> int:
        """Return the address of the words of all ranks, of one kind and for one rank."""
        return int(self._words.ctypes.data) + (kind * self.size + other) * self.size * WORD

    def word(self, owner: int, kind: int, other: int) -> int:
        """Return the address of a word that `owner` writes."""
        return self.words(kind, other) + owner * WORD

    def take_lock(self, operation: str, kind: int, target: int, *, shared: bool = False) -> None:
        """Take a lock of a target: LOCK or ATOMIC."""
        words = self.words(kind, target)
        try:
            rank_locks.take(words, self.size, self.rank, partial(self.wait_until, operation), shared=shared)
        except BaseException:
            rank_locks.give(words, self.rank)
            raise

    def give_lock(self, kind: int, target: int) -> None:
        rank_locks.give(self.words(kind, target), self.rank)

    def check_process(self, operation: str) -> None:
        """Raise in a process that this rank has forked."""
        self.native._dispatcher.check_rank(operation)

    def check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.size:
            raise MPIError("MPI_ERR_RANK", f"rank {rank} is not in {self.in_words} of {self.size} ranks")

    def know(self, reduction: str, dtype: np.dtype) -> None:
        """Let native code know the kernel of a reduction, for accumulates."""
        known, number = BY_NUMPY[dtype], REDUCTIONS[reduction]
        dispatcher = self.native._dispatcher
        if not dispatcher.words[kernel_slot(known.code, number)] and has_kernel(known, reduction):
            dispatcher.kernel(known, reduction, number)

    # --- accesses -----------------------------------------------------------------------------------------------------

    def place(
        self, operation: str, rank: int, displacement: int, count: int, datatype: Datatype
    ) -> tuple[Target, int] | None:
        """Return the memory of a target and the address in it where elements are; None if the rank is MPI_PROC_NULL.

        Raises:
            MPIError: there is no such rank, no epoch in which it may be accessed, or no such memory in the window.
        """
        if rank == PROC_NULL:
            return None
        self.check_process(operation)
        self.check_rank(rank)
        if count < 0:
            raise MPIError("MPI_ERR_COUNT", f"count {count} is negative")
        datatype.check_committed()
        self.epochs.begin_access(rank, operation)
        target = self.targets[rank]
        low, high = datatype.span(count) if count and datatype.size else (0, 0)
        if self.flavor != DYNAMIC:
            start = displacement * target.unit
            if high > low and not (start + low >= 0 and start + high <= target.size):
                raise MPIError(
                    "MPI_ERR_RMA_RANGE",
                    f"bytes {start + low} to {start + high} are not in the {target.size} bytes of {self.in_words} on "
                    f"rank {rank}",
                )
            return target, target.base + start
        start = displacement + low
        inside = any(base <= start and start + high - low <= base + size for base, size in self.attached.items())
        if rank == self.rank and high > low and not inside:
            raise MPIError("MPI_ERR_RMA_RANGE", f"{high - low} bytes at {start:#x} are not attached to {self.in_words}")
        return target, displacement

    @contextmanager
    def reaching(self, operation: str, rank: int) -> Any:
        """Read and write memory of a rank in this context. It says so if that rank has ended."""
        try:
            yield
        except Ended:
            raise self.native._dispatcher.failures.lost(operation, self._in_world(rank)) from None

    @contextmanager
    def alone(self, operation: str, rank: int) -> Any:
        """Let no other rank and no other thread accumulate at that rank in this context."""
        with self._turns[rank], self.reaching(operation, rank):
            self.take_lock(operation, ATOMIC, rank)
            try:
                yield
            finally:
                self.give_lock(ATOMIC, rank)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _in_world(self, rank: int) -> int:
        return int(self.native._dispatcher.group.ranks[rank])

    def wait_until(self, operation: str, is_so: Callable[[], bool], rank: int) -> None:
        """Wait for something that a rank does. Raises if it will not, or takes too long."""
        failures = self.native._dispatcher.failures
        began = looked = time.monotonic_ns()
        turn = 0
        while not is_so():
            turn += 1
            if turn < _YIELDS:
                os.sched_yield()
            else:
                time.sleep(min((turn - _YIELDS) * _FIRST_SLEEP, _LONGEST_SLEEP))
            now = time.monotonic_ns()
            if now - looked > _LOOK_NS:
                looked = now
                failures.look(operation)
                if how_ended(self._arena, self._in_world(rank)) and not is_so():
                    raise failures.lost(operation, self._in_world(rank))
                if now - began > self.native.timeout * 1e9:
                    raise failures.late(
                        operation, self.native.timeout, self._in_world(rank), f"has not let it go on ({self.in_words})"
                    )
