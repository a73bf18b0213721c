"""The epochs of one rank in a window: when it accesses others, and others access it. `windows.py` has the protocol."""

from functools import partial
from typing import Any

import numpy as np

from shmcoll.engine.atomics import fence, load_acquire, store_release
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import mpi_windows as t
from shmcoll.engine.system.switches import is_on
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.communicators import UNDEFINED, Group
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.window_conflicts import Conflicts
from shmcoll.mpi.objects.window_memory import Target

_OPEN, _IS_LOCKED, _HERE, _PID, _THERE, _LENGTH, _UNIT, _TURN = (
    at // WORD for at in (t.OPEN, t.IS_LOCKED, t.HERE, t.PID, t.THERE, t.LENGTH, t.UNIT, t.TURN)
)

#: kinds of words of a window
LOCK, ATOMIC, POSTED, DONE = range(4)


class Epochs:
    """The epochs of one rank in a window: in which it accesses others, and in which others access it."""

    def __init__(self, window: Any):
        self._window = window
        self._is_fenced = False
        self._started: dict[int, bool] | None = None  # targets: whether they are known to have posted
        self._posted: list[int] | None = None
        self._entered = [0] * window.size  # epochs at each target so far
        self._locked: dict[int, _Taken] = {}  # by target
        self._is_all_locked = False
        self.conflicts = Conflicts() if is_on("SHMCOLL_CHECK") else None
        self.table = np.zeros(t.RANKS // WORD + window.size * t.RANK_WORDS, np.int64)
        self._scratch = np.zeros(t.PIECE // WORD, np.int64)
        self.table[t.SCRATCH // WORD] = self._scratch.ctypes.data
        rows = self.table[t.RANKS // WORD :].reshape(window.size, t.RANK_WORDS)
        for row, target in zip(rows, window.targets, strict=True):
            row[_HERE] = target.address_here(target.base, target.size) or 0
            row[_PID], row[_THERE] = target.pid, target.base
            row[_LENGTH], row[_UNIT] = target.size, target.unit
            row[_TURN] = window.words(ATOMIC, target.rank)
        self._are_open, self._are_locked = rows[:, _OPEN], rows[:, _IS_LOCKED]

    def _tell(self) -> None:
        """Let native code know which ranks may be accessed now."""
        self._are_locked[:] = 0
        self._are_locked[list(self._locked)] = 1
        self.table[t.ANY_LOCKED // WORD] = bool(self._locked)
        self._are_open[:] = self._started is None and (self._are_locked | self._is_fenced)

    def check_none(self, operation: str) -> None:
        """Raise if an epoch is open that has an end of its own."""
        for is_open, what in (
            (self._locked, "a lock; call MPI_Win_unlock or MPI_Win_unlock_all first"),
            (self._started is not None, "an access epoch; call MPI_Win_complete first"),
            (self._posted is not None, "an exposure epoch; call MPI_Win_wait first"),
        ):
            if is_open:
                raise _out_of_order(f"{operation}: this rank still has {what}")

    def note_access(self, operation: str, target: Target, at: int, count: int, datatype: Datatype) -> None:
        """Note an access between fences, which is about to be made, if conflicts are looked for. at: its address."""
        if self.conflicts and self._started is None and target.rank not in self._locked:
            self.conflicts.note(operation, target.rank, at - target.base, count, datatype)

    def begin_access(self, rank: int, operation: str) -> None:
        """Be in an epoch in which a rank may be accessed. Raises if there is none."""
        if self._started is not None and rank in self._started:
            self._await_post(rank, operation)
        elif not (self._is_fenced or rank in self._locked):
            raise _out_of_order(
                f"{operation} at rank {rank} is outside of an epoch; call MPI_Win_fence, MPI_Win_start, MPI_Win_lock "
                f"or MPI_Win_lock_all before"
            )

    # --- fence ---

    def fence(self, assertion: int) -> None:
        self.check_none("MPI_Win_fence")
        fence()
        self._is_fenced = not assertion & c["MPI_MODE_NOSUCCEED"]
        self._tell()
        if self.conflicts:
            self.conflicts.exchange(self._window.native, self._window.in_words)
        else:
            self._window.native.barrier()

    # --- start, complete, post, wait ---

    def _members(self, group: Group) -> list[int]:
        places = [self._window.group.place(rank) for rank in group.ranks]
        if UNDEFINED in places:
            stranger = group.ranks[places.index(UNDEFINED)]
            raise MPIError("MPI_ERR_GROUP", f"rank {stranger} of MPI_COMM_WORLD is not in {self._window.in_words}")
        return places

    def start(self, group: Group) -> None:
        members = self._members(group)
        if self._started is not None or self._locked:
            raise _out_of_order("MPI_Win_start: this rank has begun an access epoch already")
        self._started = dict.fromkeys(members, False)
        self._tell()

    def _await_post(self, rank: int, operation: str) -> None:
        assert self._started is not None
        if not self._started[rank]:
            window, wanted = self._window, self._entered[rank] + 1
            word = window.word(rank, POSTED, window.rank)
            window.wait_until(operation, lambda: load_acquire(word) >= wanted, rank)
            self._started[rank] = True

    def complete(self) -> None:
        if self._started is None:
            raise _out_of_order("MPI_Win_complete: this rank has not called MPI_Win_start")
        window = self._window
        for rank in self._started:
            self._await_post(rank, "MPI_Win_complete")
        for rank in self._started:
            self._entered[rank] += 1
            store_release(window.word(window.rank, DONE, rank), self._entered[rank])
        self._started = None
        self._tell()

    def post(self, group: Group) -> None:
        members = self._members(group)
        if self._posted is not None:
            raise _out_of_order("MPI_Win_post: this rank has an exposure epoch already; call MPI_Win_wait first")
        window = self._window
        for rank in members:
            word = window.word(window.rank, POSTED, rank)
            store_release(word, load_acquire(word) + 1)
        self._posted = members

    def wait(self) -> None:
        for rank in self._exposed("MPI_Win_wait"):
            if not self._is_done(rank):
                self._window.wait_until("MPI_Win_wait", partial(self._is_done, rank), rank)
        self._posted = None

    def test(self) -> bool:
        if not all(self._is_done(rank) for rank in self._exposed("MPI_Win_test")):
            self._window.native._dispatcher.failures.look("MPI_Win_test")
            return False
        self._posted = None
        return True

    def _exposed(self, operation: str) -> list[int]:
        if self._posted is None:
            raise _out_of_order(f"{operation}: this rank has not called MPI_Win_post")
        return self._posted

    def _is_done(self, rank: int) -> bool:
        window = self._window
        wanted = load_acquire(window.word(window.rank, POSTED, rank))
        return load_acquire(window.word(rank, DONE, window.rank)) >= wanted

    # --- lock, unlock ---

    def lock(self, rank: int, assertion: int, *, shared: bool, operation: str = "MPI_Win_lock") -> None:
        window = self._window
        window.check_rank(rank)
        if self._started is not None or self._locked.setdefault(rank, mine := _Taken()) is not mine:
            raise _out_of_order(f"{operation}: this rank has an epoch at rank {rank} already")
        mine.is_taken = not assertion & c["MPI_MODE_NOCHECK"]
        if mine.is_taken:
            try:
                window.take_lock(operation, LOCK, rank, shared=shared)
            except BaseException:
                del self._locked[rank]
                raise
        self._tell()

    def unlock(self, rank: int, operation: str = "MPI_Win_unlock") -> None:
        self._window.check_rank(rank)
        self.check_locked(rank, operation)
        taken = self._locked.pop(rank)
        self._tell()
        if taken.is_taken:
            self._window.give_lock(LOCK, rank)

    def lock_all(self, assertion: int) -> None:
        if self._locked or self._started is not None:
            raise _out_of_order("MPI_Win_lock_all: this rank has begun an access epoch already")
        try:
            for rank in range(self._window.size):
                self.lock(rank, assertion, shared=True, operation="MPI_Win_lock_all")
        except BaseException:
            self._unlock_all()
            raise
        self._is_all_locked = True

    def unlock_all(self) -> None:
        if not self._is_all_locked:
            raise _out_of_order("MPI_Win_unlock_all: this rank has not called MPI_Win_lock_all")
        self._is_all_locked = False
        self._unlock_all()

    def _unlock_all(self) -> None:
        for rank in list(self._locked):
            self.unlock(rank, "MPI_Win_unlock_all")

    def check_locked(self, rank: int | None, operation: str) -> None:
        """Raise unless this rank has locked another one; any, for None."""
        if rank not in self._locked if rank is not None else not self._locked:
            where = "" if rank is None else f" at rank {rank}"
            raise _out_of_order(f"{operation}: this rank has no lock{where}; call MPI_Win_lock or MPI_Win_lock_all")


class _Taken:
    """A lock of this rank. is_taken: whether it is kept in the words, and not only said to be free."""

    is_taken = False


def _out_of_order(text: str) -> MPIError:
    return MPIError("MPI_ERR_RMA_SYNC", text)
