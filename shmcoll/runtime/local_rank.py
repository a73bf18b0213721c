"""This process as a rank of the job: what all its communicators share, and how its peers learn of its end.

An exception that ends the process (`uncaught.py`) ends every group that the rank belongs to at once. Its text is in the
errors of the peers. A normal end writes DEPARTED, which is an error only for ranks that still need this one.
"""

import atexit
import contextlib
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from shmcoll.diagnostics import keeping, stack_server
from shmcoll.engine import context as c
from shmcoll.engine import fault_injection, layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.heap import Heap
from shmcoll.engine.system.switches import is_on
from shmcoll.errors import CallNotAllowed
from shmcoll.profiling import asked, recorder
from shmcoll.profiling.recorder import Profile, Recorder
from shmcoll.runtime import leftovers, thread_team, uncaught
from shmcoll.runtime.array_sharing import ArraySharing
from shmcoll.runtime.group_directory import Identity
from shmcoll.runtime.group_registry import GroupRegistry


class OpenCommunicator(leftovers.LeavingDispatcher, Protocol):
    """An open communicator, as its rank knows it: the group, the context, and how to end it."""

    group: Group
    words: np.ndarray
    profile: Profile | None

    def shut(self) -> None: ...
    def record_by(self, recorder: Recorder | None) -> None: ...

    def tell_leftovers(self) -> None: ...


class LocalRank:
    """Rank `rank` of the job whose arena this is. launcher: the program that started it. is_beside: whether the process
    is a rank of another job, too, and leaves this one when it has closed its last communicator here."""

    def __init__(self, arena: Arena, rank: int, launcher: str, *, is_beside: bool = False):
        self.arena = arena
        self.rank = rank
        self.launcher = launcher
        self.is_beside = is_beside
        self._has_left = False
        self.pid = os.getpid()
        #: how peers learn of the exception that ends this rank
        self.in_words: Callable[[BaseException], str] = uncaught.in_words
        self._moved = self._slept = 0  # by communicators that have been closed
        self._arrays: ArraySharing | None = None
        self._making_arrays = threading.RLock()
        self._looking: set[int] = set()  # threads that look for a group
        self._learning: set[tuple[int, int]] = (
            set()
        )  # threads that learn of a block of another rank, and in which group
        self._compiling: set[int] = set()  # threads that load code, and may compile it first
        self.is_faulty = fault_injection.plan(rank)
        self.checks_buffers = is_on("SHMCOLL_CHECK")  # see `calls/buffer_check.py`
        self.heap = Heap(arena, rank)
        self.groups = GroupRegistry(arena, rank, self.heap)
        self.lock = threading.RLock()  # guards what follows; held for a moment only, see `check_not_within`
        self.contexts: dict[int, np.ndarray] = {}  # by size: what all groups of as many ranks have in theirs
        self.communicators: dict[Identity, Any] = {}  # the open ones, that of all ranks among them
        #: how often this rank has closed the subgroup of these ranks and this name
        self.closes: Counter[tuple[tuple[int, ...], str]] = Counter()
        self.subgroups: set[Identity] = set()  # those that have been looked for and are not closed
        self.recorder: Recorder | None = None  # while it records
        self._recording = threading.RLock()
        self._recorder: Recorder | None = None  # stays, because native code may be inside
        cores = arena.load(layout.JOB_CORES)
        threads = thread_team.asked(arena.ranks, cores)
        records.write(arena, rank, layout.BY_RANK, records.JOINED, pid=self.pid)
        self.team = 0  # address of the team of threads, if there are several
        if threads > 1:
            with self.compiling():
                self.team = thread_team.address(threads, polls=arena.ranks * threads <= cores)
        if any(wanted := asked.take()):
            self.record(traces=wanted.trace is not None)
        stack_server.offer()
        self._tell_the_end()
        in_child = weakref.WeakMethod(self._leave_in_child)
        os.register_at_fork(after_in_child=lambda: (leave := in_child()) and leave())

    def is_within(self) -> bool:
        """Return whether this thread is about to make or close a group, and runs a signal handler or a finaliser."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]

    def check_not_within(self, operation: str) -> None:
        """Raise if this thread holds the lock. The lock is re-entrant only so that a thread does not wait for itself.
        While a thread holds it, what it guards may be half changed."""
        if self.is_within():
            raise CallNotAllowed(
                f"{operation} on rank {self.rank}: called by a signal handler or finaliser while its own thread makes "
                f"or closes a group"
            )

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Stop the time limits of all peers while this thread loads code, which it may have to compile first. The peers
        read in a record that it has begun. If an interrupt leaves that record, the next thread removes it."""
        me = threading.get_ident()
        try:
            self._compiling.add(me)
            records.note_compiling(self.arena, self.rank, begins=True)
            yield
        finally:
            self._compiling.discard(me)
            if not self._compiling:
                records.note_compiling(self.arena, self.rank, begins=False)

    def looking(self) -> contextlib.AbstractContextManager[None]:
        """Count this thread in LOOKING while it looks for a group and joins it. If an interrupt leaves it counted, its
        next call corrects that."""
        return self._counted(self._looking, threading.get_ident(), layout.LOOKING)

    def learning(self, group: Group) -> contextlib.AbstractContextManager[None]:
        """Count a call of a group in LEARNING while it learns of a block of another rank, until it holds the block. See
        `engine/memory/holds.py`."""
        return self._counted(self._learning, (threading.get_ident(), group.offset), layout.LEARNING)

    @contextlib.contextmanager
    def _counted(self, calls: set[Any], call: Any, word: int) -> Iterator[None]:
        """Keep a call in a set whose length is a word of this rank's directory."""
        at = layout.directory_offset(self.arena.ranks, self.rank) + word
        try:
            with self.lock:
                calls.add(call)
                self.arena.store(at, len(calls))
            self.arena.fence()
            yield
        finally:
            with self.lock:
                calls.discard(call)
                self.arena.store(at, len(calls))

    def record(self, *, traces: bool) -> Recorder:
        """Record the calls of all communicators until `record_no_more` has been called as often. traces: each of them,
        and not only totals. Raises `ArenaError` if there is no memory for that."""
        with self._recording:
            with self.compiling():
                made = self._recorder = self._recorder or Recorder(self.arena, self.heap, self.rank)
            made.begin(traces=traces)
            self.recorder = recorder.current = made
            for dispatcher in self.dispatchers:
                if dispatcher.profile is None:
                    dispatcher.record_by(made)
            return made

    def record_no_more(self, *, traces: bool) -> None:
        """Undo a `record` with the same argument."""
        with self._recording:
            if self._recorder and not self._recorder.end(traces=traces):
                self.recorder = recorder.current = None
                for dispatcher in self.dispatchers:
                    dispatcher.record_by(None)

    def share_arrays(self) -> ArraySharing:
        """Return what allocates ordinary numpy arrays in shared memory. Made by the first call, which loads code."""
        with self._making_arrays:
            if self._arrays is None:
                with self.compiling():
                    made = ArraySharing(self.arena, self.heap, self.rank)
                self._arrays = self._arrays or made  # a signal handler may have made them meanwhile
            return self._arrays

    def count_close(self, ranks: tuple[int, ...], name: str, which: Identity) -> None:
        """Note that a group has been closed, or could not be made, if it is a subgroup of these ranks and this name."""
        if which in self.subgroups:
            self.subgroups.discard(which)
            self.closes[ranks, name] += 1

    @property
    def dispatchers(self) -> list[OpenCommunicator]:
        """The dispatchers of the open communicators."""
        return [comm._dispatcher for comm in list(self.communicators.values())]

    def forget(self, which: Identity) -> None:
        """Forget a communicator that has been closed."""
        dispatcher = self.communicators.pop(which)._dispatcher
        self._moved += int(dispatcher.words[c.MOVED // WORD])
        self._slept += int(dispatcher.words[c.SLEPT // WORD])

    def _publish_statistics(self) -> None:
        """Publish how much this rank has moved and slept, when it leaves. The launcher reports it."""
        mailbox = Group.world(self.arena).mailbox(self.rank)
        moved = self._moved + sum(int(dispatcher.words[c.MOVED // WORD]) for dispatcher in self.dispatchers)
        slept = self._slept + sum(int(dispatcher.words[c.SLEPT // WORD]) for dispatcher in self.dispatchers)
        self.arena.store(mailbox + layout.STATISTICS_MOVED, moved)
        self.arena.store(mailbox + layout.STATISTICS_SLEPT, slept)
        self.arena.store(mailbox + layout.STATISTICS_LEFT, 1)

    def _leave_in_child(self) -> None:
        """Refuse all calls in a process that this rank has forked: that process is not the rank."""
        for dispatcher in self.dispatchers:
            dispatcher.shut()
        self.arena.abandon(self._arrays.leave_in_child() if self._arrays else (0, 0))

    def _tell_the_end(self) -> None:
        def failed(error: BaseException) -> None:
            if os.getpid() == self.pid and not self._has_failed():
                text = f"raised {self.in_words(error)}"
                cause = records.RAISED_BECAUSE if uncaught.is_consequence(error) else records.RAISED
                taken = None
                if cause == records.RAISED and isinstance(error, Exception):  # not by Ctrl-C
                    about = {"rank": self.rank, "subject": True, "trace": error.__traceback__}
                    taken = keeping.take(self.arena, cause, text, patience=keeping.STACKS_PATIENCE, **about)
                records.write(self.arena, self.rank, layout.BY_RANK, records.FAILED, cause, 1, text)
                self._groups_look(abort=True)
                keeping.keep(taken)

        def departed() -> None:
            if os.getpid() != self.pid:
                return
            uncaught.at_end()
            self._depart()

        uncaught.tell_of_end(failed)
        atexit.register(departed)
        self._told_of_end = failed, departed

    def leave_if_unused(self) -> None:
        """Leave a job beside that of this process, if no communicator of it is open. Its memory goes when no array in
        it is left."""
        with self.lock:
            if not self.is_beside or self.communicators or self._has_left:
                return
            self._has_left = True
        self._depart()
        failed, departed = self._told_of_end
        uncaught.tell_no_more(failed)
        atexit.unregister(departed)
        if self.arena.has_descriptor():
            os.close(self.arena.fd)
        self.arena.fd = -1

    def _depart(self) -> None:
        leftovers.note_all(self.dispatchers)
        for dispatcher in self.dispatchers:
            dispatcher.tell_leftovers()
        self._publish_statistics()
        if self.recorder:
            self.recorder.note_end()
        if not self._has_failed():
            records.write(self.arena, self.rank, layout.BY_RANK, records.DEPARTED, pid=self.pid)
            self._groups_look(abort=False)
        if self.recorder and not self.is_beside:
            from shmcoll.profiling import output

            output.publish_if_last(self.arena, self.rank, self.launcher)

    def _has_failed(self) -> bool:
        return records.own_state(self.arena, self.rank) == records.FAILED

    def _groups_look(self, *, abort: bool) -> None:
        for group in (Group.world(self.arena), *(dispatcher.group for dispatcher in self.dispatchers)):
            if abort:
                group.abort()
            else:
                group.ring()
