"""The native side of a communicator: its context, how a routine is entered, and what follows from its status."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from shmcoll.collectives import OPERATION_NAMES, RECORDS
from shmcoll.diagnostics import late_settings
from shmcoll.engine import context as c
from shmcoll.engine import fault_injection, layout
from shmcoll.engine.compiler import compile as code
from shmcoll.engine.kernels.dtypes import DType
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import pages
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.thresholds import WORDS, Thresholds
from shmcoll.engine.messages.buffers import MessageBuffers
from shmcoll.engine.native import entry, tables
from shmcoll.engine.protocol import choices
from shmcoll.engine.protocol.cells import MOVED_BYTES
from shmcoll.engine.protocol.pace import FIRST_PACE
from shmcoll.engine.protocol.wait import SLICE_NS, USUAL_POLLS
from shmcoll.engine.protocol.ways import NEVER, RANGE, TO_ALL_FACTOR
from shmcoll.engine.system import log
from shmcoll.engine.system.addresses import address_of
from shmcoll.engine.system.green_threads import check_threads
from shmcoll.errors import CallNotAllowed
from shmcoll.profiling.recorder import Profile, Recorder
from shmcoll.runtime import helpers, leftovers, refused_calls, thread_team
from shmcoll.runtime.async_worker import AsyncWorker, check_rank
from shmcoll.runtime.failure_reporter import Checking, FailureReporter
from shmcoll.runtime.local_rank import LocalRank
from shmcoll.runtime.posted_receives import PostedReceives


class Calls:
    """The common base of the dispatchers of a group on one machine and of one over nodes."""

    sent: leftovers.SentMessages | None = None  # of a group on one machine, with SHMCOLL_CHECK
    only_records = False  # a plan's stand-in does: see `communicator/plans.py`
    local_rank: LocalRank
    worker: AsyncWorker
    failures: Any
    profile: Profile | None  # while calls are recorded
    outer: "Calls | None" = None  # whose calls are made of the calls of this one
    _profiles: list[Profile]  # all that there have been: native code may be inside

    def checking(self, operation: str) -> Checking:
        """Return a context manager that notes refused arguments for the peers: `with dispatcher.checking(op) as
        check`."""
        return self.failures.checking(operation)

    def refused(self, operation: str, error: Exception) -> None:
        """Note refused arguments, as `checking` does, in the handler of the exception: a `try` costs nothing."""
        self.checking(operation).__exit__(None, error, error.__traceback__)

    @property
    def is_shut(self) -> bool:
        """Whether all calls are refused: the group is closed, or this process is a fork of the rank."""
        return self.worker.turns.is_shut

    def shut(self) -> None:
        """Refuse all calls from now on: this process is a fork of the rank."""
        self.worker.turns.shut()

    def tell_leftovers(self) -> None:
        """Print what the program leaves behind in this group."""

    def check_rank(self, operation: str) -> None:
        """Raise in a process that this rank has forked."""
        check_rank(self.local_rank.pid, operation, f"rank {self.failures.name}")

    def record_by(self, recorder: Recorder | None) -> None:
        """Have calls recorded from now on, or not any more."""
        raise NotImplementedError

    def check_open(self, operation: str) -> None:
        """Raise if no call is possible any more."""
        if self.is_shut:
            self.check_rank(operation)
            refused_calls.check(operation)
            raise CallNotAllowed(
                f"{operation} on rank {self.failures.name}: this communicator is closed; make a new one"
            )


class Dispatcher(Calls):
    """Calls the routines of one group as its rank `rank`."""

    reporter = FailureReporter

    def __init__(self, local_rank: LocalRank, group: Group, rank: int):
        self.local_rank = local_rank
        self.group = group
        self.rank = rank
        self.size = group.size
        if self.size not in local_rank.contexts:
            local_rank.contexts[self.size] = _new_context(group.arena, self.size)
        words = local_rank.contexts[self.size].copy()
        ends = _ends(self.size)
        self.words, self._address = words[: ends[0]], address_of(words)  # looking it up in each call would take 2 us
        self.own_table = self._address + tables.OWN_TABLE
        self.own_ends = memoryview(self.words)[tables.OWN_TABLE // WORD + layout.TABLE_SIZES * self.size :]  # type: ignore[arg-type]
        self.told = words[ends[1] : ends[2]]  # dtype and shape of what this rank gets
        self.told_at = self._address + ends[1] * WORD
        words[ends[2] :] = group.ranks
        self._ranks_at = self._address + ends[2] * WORD
        self._choices = words[ends[0] : ends[1]]
        self._scratch = np.empty(c.PIECE_BYTES + layout.PAGE + 64, np.uint8)
        self.buffers = MessageBuffers(local_rank.heap, group, rank, self.words)
        self._fill_context()
        self.failures = self.reporter(group, self.words, rank, self.buffers)
        self.worker = AsyncWorker(self.words, group, rank, self.failures)
        self.checks_buffers = local_rank.checks_buffers
        self.sent = leftovers.SentMessages() if self.checks_buffers else None
        self.worker.unseen = {} if self.checks_buffers else None
        self._faulty = local_rank.is_faulty
        self._profiles = []
        self.record_by(local_rank.recorder)
        self._routines: dict[str, Callable[..., int]] = {}

    def _fill_context(self) -> None:
        arena, size = self.group.arena, self.size
        group = arena.address + self.group.offset
        committed = arena.load(self.group.mailbox(self.rank) + layout.COMMITTED)
        has_windows = self.group.offset == arena.world or committed == self.words.item(c.WINDOW_BYTES // WORD)
        for offset, value in (
            (c.GROUP, group),
            (c.RANKS, self._ranks_at),
            (c.MAILBOXES, group + layout.mailboxes_offset(size)),
            (c.CELLS, group + layout.cells_offset(size)),
            (c.FLIGHTS, group + layout.flight_offset(size, self.rank)),
            (c.RANK, self.rank),
            (c.MAIL, address_of(self.buffers.words)),
            (c.SCRATCH, layout.align(address_of(self._scratch), 64)),
            (c.COMMIT_BY, 0 if has_windows else pages.function_to_commit()),
            (c.COMMITTED, committed),
        ):
            self.words[offset // WORD] = value
        if self.local_rank.team:
            self.words[c.TEAM // WORD] = self.local_rank.team
            self.share_work(wanted=True)
        self._publish_witness()

    def _publish_witness(self) -> None:
        """Let the peers find out whether they can read this rank's memory: see `engine/protocol/peer_memory.py`."""
        value, mailbox = int.from_bytes(os.urandom(8)) >> 2, self.group.mailbox(self.rank)
        self.words[c.OWN_WITNESS // WORD] = value
        self.group.arena.store(mailbox + layout.WITNESS_VALUE, value)
        self.group.arena.store(mailbox + layout.WITNESS, self._address + c.OWN_WITNESS)

    @cached_property
    def posted(self) -> PostedReceives:
        """The posted receives. They know the dispatcher, so they are made when they are first asked for, and go when it
        has finished: without a circle a closed communicator is gone at once, and not when the collector comes."""
        posted: PostedReceives = self.__dict__.setdefault("posted", PostedReceives(self))  # one, whoever interrupts
        self.worker.listener = posted
        return posted

    @property
    def timeout(self) -> float:
        """The limit of one wait, in seconds."""
        return self.words.item(c.TIMEOUT // WORD) / 1e9

    def choose_by(self, thresholds: Thresholds) -> None:
        """Set the thresholds between algorithms from the next call on. All ranks must do so before the same call. For
        measurements."""
        _choose_by(self.words, self.size, thresholds)

    def share_work(self, *, wanted: bool) -> None:
        """Have the threads of this rank share long copies and sums from the next call on, if there are several, or let
        one thread do them. For measurements."""
        shares = wanted and self.words[c.TEAM // WORD] != 0
        self.words[c.TEAM_BYTES // WORD] = thread_team.PIECE_BYTES if shares else c.OUT_OF_REACH

    def finish(self) -> None:
        """Complete what is pending, refuse further calls, and wait until no thread is inside. A thread is inside during
        a call, between the phases of a call, and, if the group has ended, until it has left. Raises `CallNotAllowed` in
        a thread that is inside itself."""
        self.check_outside("close")
        self.worker.finish()
        self.worker.turns.drain()
        self.tell_leftovers()
        self.failures.shut()
        self.worker.listener = None
        self.__dict__.pop("posted", None)  # it is empty

    def tell_leftovers(self) -> None:
        leftovers.tell(self)

    def record_by(self, recorder: Recorder | None) -> None:
        """Have calls recorded from now on, or not any more."""
        if recorder:
            self.profile = recorder.attach(self.group, self.words, is_part=self.outer is not None)
            self._profiles.append(self.profile)
        else:
            self.profile = None
            self.words[c.PROFILE // WORD] = 0
        if self.outer:
            self.outer.record_by(recorder)

    def abandon(self) -> None:
        """Refuse all calls, of which there has been none: the communicator is not returned."""
        self.shut()
        self.failures.shut()

    def routine(self, name: str) -> Callable[..., int]:
        """Return the native entry of a collective. The first call for a collective loads or compiles it."""
        if name not in self._routines:
            late_settings.warn()
            record = RECORDS[name]
            if self._faulty:
                self._routines[name] = fault_injection.make_callable(record, self.words)
                return self._routines[name]
            with nullcontext() if code.is_loaded(name) else self._loading(name):
                fast, plain = code.load_routine(record, log.info)
            self.words[tables.KINDS // WORD + record.code] = record.form
            self.words[tables.ROUTINES // WORD + record.code] = plain
            made = entry.make_callable(name, fast, plain, self.words)
            if name == "send" and self.sent:
                made = self.sent.noting(made)
            self._routines[name] = made  # last: it marks that all is done
        return self._routines[name]

    def kernel(self, dtype: DType, reduction: str, number: int) -> int:
        """Return the address of the kernel for a dtype and a reduction. From now on the native entry finds it by
        itself."""
        with self._loading(f"a reduction by {reduction!r}"):
            address = code.load_kernel(dtype, reduction, log.info)
        self.words[tables.kernel_slot(dtype.code, number)] = address
        return address

    @contextmanager
    def _loading(self, what: str) -> Iterator[None]:
        """Load code in the block. what: the code. In a `__del__` at the end of the interpreter nothing can be
        imported, so that what has not been loaded before raises `CallNotAllowed`."""
        try:
            with self.local_rank.compiling():
                yield
        except (ImportError, NameError):
            if not sys.is_finalizing():
                raise
            raise CallNotAllowed(
                f"{what} on rank {self.failures.name}: the interpreter is ending, and nothing like it has been called "
                f"before; make the call in the program or in an atexit function, not in a __del__"
            ) from None

    # --- calling ------------------------------------------------------------------------------------------------------

    def left(self, operation: str) -> None:
        """End the group, because an exception has left one of its calls: in a wait, between two phases, or after
        the routine had succeeded. Peers wait for what this rank would do next, so no thread enters again. The reason is
        written first, because other threads read it when they may not enter."""
        try:
            self.failures.interrupted(operation)
        except BaseException:  # from the handler of another signal, now: the peers must learn of the end all the same
            self.failures.interrupted(operation)
            raise
        finally:
            self.words[c.ACTIVE // WORD] = c.ENDED

    def run(self, operation: str, *arguments: Any) -> None:
        """Call a collective's routine with the arguments of its native entry. Raises an exception for a status other
        than OK."""
        self.complete(operation, self.routine(operation), arguments)

    def complete(
        self, operation: str, call: Callable[..., int], arguments: tuple[Any, ...] = (), status: int = c.BUSY
    ) -> int:
        """Repeat a call until it may enter, and return its status: OK, or one that says more. status: its first
        answer."""
        outcome: int | CallNotAllowed = status
        try:
            if outcome == c.BUSY:
                outcome = call(*arguments)
                if outcome == c.BUSY:
                    outcome = self._run_in_turn(operation, call, arguments)
        except BaseException:
            self.left(operation)
            raise
        if isinstance(outcome, CallNotAllowed):
            raise outcome
        if outcome > c.OK:
            raise self.failures.error(operation, outcome)
        self.failures.note_line(operation)
        return outcome

    def _run_in_turn(
        self, operation: str, call: Callable[..., int], arguments: tuple[Any, ...]
    ) -> int | CallNotAllowed:
        """Wait for the turn of a call that could not enter (`turns.py`), and make it. It could not enter because
        another thread was inside, or because asynchronous work was pending.

        A call that is refused has done nothing. So the group goes on, and `CallNotAllowed` is returned. An exception
        that is raised here has interrupted the call. This holds for a `CallNotAllowed` of a signal handler, too.
        """

        def patiently() -> int | CallNotAllowed:
            try:
                while not (refusal := self._refusal(operation, self._check_not_active)):
                    status = call(*arguments)
                    if status != c.BUSY:
                        return status
                    if self.words[c.ACTIVE // WORD] == c.ENDED:
                        return c.ABORTED
                    time.sleep(1e-4)  # a call is inside that entered before ours took its place in the line
                return refusal
            except BaseException:  # the reason is written before any other thread has the turn
                self.left(operation)
                raise

        turns = self.worker.turns
        if turns.is_mine():
            return patiently()
        if refusal := self._refusal(operation, self.check_outside):
            return refusal
        if self.words[c.ACTIVE // WORD] == c.ENDED:
            return c.ABORTED
        outcome: int | CallNotAllowed = turns.run(patiently, operation)
        return outcome

    def _refusal(self, operation: str, check: Callable[[str], None]) -> CallNotAllowed | None:
        """Return why this thread cannot make a call, however long it waits. `check` raises if the thread is inside
        already."""
        try:
            self.check_open(operation)
            check(operation)
        except CallNotAllowed as refusal:
            return refusal
        return None

    def check_outside(self, operation: str) -> None:
        """Raise if a call of this thread is inside already, or waits for its turn. That call can go on only when the
        new one has returned. Raise if threads are not what the native entry takes them for."""
        check_threads(operation)
        if self.worker.turns.is_within():
            raise self._inside(operation)

    def _check_not_active(self, operation: str) -> None:
        """Raise if a call of this thread, which has the turn, is inside already."""
        if abs(int(self.words[c.ACTIVE // WORD])) == threading.get_ident():
            raise self._inside(operation)

    def _inside(self, operation: str) -> CallNotAllowed:
        is_active = abs(int(self.words[c.ACTIVE // WORD])) == threading.get_ident()
        inside = OPERATION_NAMES[self.words[c.OPERATION // WORD]] if is_active else "another call"
        return CallNotAllowed(
            f"{operation} on rank {self.failures.name}: called by a signal handler, or a finaliser, in the midst "
            f"of {inside} of the same thread; have it note what is to be done, and call {operation} when {inside} "
            f"has returned"
        )


def _is_crowded(arena: Arena) -> bool:
    """Return whether there are more ranks than cores, as the creator has seen them: a rank that is bound to one core
    sees that one alone."""
    return arena.ranks > arena.load(layout.JOB_CORES)


def _ends(size: int) -> tuple[int, int, int]:
    """Return where parts of the private words of a group of this size end: the context, the choices, what is told. The
    ranks follow."""
    context = tables.context_words(size)
    told = context + choices.ALL_WORDS
    return context, told, told + 2 + layout.MOST_DIMENSIONS


def _new_context(arena: Arena, size: int) -> np.ndarray:
    """Return private words (`_ends`) with what all groups of this size have in common."""
    crowded = _is_crowded(arena)
    context, told, end = _ends(size)
    words, thresholds = np.zeros(end + size, np.int64), Thresholds(*map(arena.load, WORDS))
    words[:told] = [*tables.new_context(size), *choices.new_words(arena.load(layout.JOB_WINDOW_BYTES))]
    for offset, value in (
        (c.ARENA, arena.address),
        (c.ARENA_BYTES, arena.size),
        (c.RECORDS, arena.address + layout.record_offset(arena.ranks, 0, layout.BY_RANK)),
        (c.RECORDS_LAUNCHER, arena.address + layout.record_offset(arena.ranks, 0, layout.BY_LAUNCHER)),
        (c.STRIDE, layout.mailbox_bytes(size)),
        (c.SIZE, size),
        (c.POLLS, 0 if crowded else USUAL_POLLS),
        (c.YIELDS, 32 if crowded else 4),
        (c.SLEEP, SLICE_NS),
        (c.TIMEOUT, arena.load(layout.JOB_TIMEOUT)),
        (c.CELL_BYTES, arena.load(layout.JOB_CELL_BYTES)),
        (c.WINDOW_BYTES, arena.load(layout.JOB_WINDOW_BYTES)),
        (c.WRITES, 1),
        (c.CROWDED, crowded),
        (c.WRITE_PACE, FIRST_PACE if crowded else 0),
        (c.RINGS, layout.rings_offset(size)),
        (c.HELPERS, helpers.ADDRESS),
    ):
        words[offset // WORD] = value
    _choose_by(words, size, thresholds)
    if not crowded:  # else the time of a copy says which rank had the core
        words[c.CHOICES // WORD] = context * WORD
        words[c.PACED_BYTES // WORD] = max(thresholds.exchange_bytes // RANGE, layout.INLINE_BYTES + 1)
    return words


def _choose_by(words: np.ndarray, size: int, thresholds: Thresholds) -> None:
    direct = thresholds.direct_bytes, thresholds.exchange_bytes, thresholds.shared_bytes
    for offset, value in (
        (c.FLAT_BYTES, min(thresholds.flat_bytes, int(words[c.CELL_BYTES // WORD]))),
        (c.SLICE_BYTES, thresholds.slice_bytes),
        (c.STREAM_BYTES, thresholds.stream_bytes),
        (c.DIRECT_BYTES, thresholds.direct_bytes),
        (c.EXCHANGE_BYTES, thresholds.exchange_bytes),
        (c.PACED_BYTES, NEVER),
        (c.CHOICES, 0),
        (c.TO_ALL_BYTES, TO_ALL_FACTOR * thresholds.exchange_bytes if size == 2 else NEVER),
        (c.SHARED_BYTES, thresholds.shared_bytes),
        (c.EXPOSING_BYTES, max(min(direct), layout.INLINE_BYTES + 1)),
        (c.RING_BYTES, min(max(size - 2, 0) * thresholds.ring_bytes, 1 << 62)),  # remains a word
    ):
        words[offset // WORD] = value
    few = (c.CELL_BYTES, c.FLAT_BYTES, c.EXPOSING_BYTES)
    words[c.FEW_BYTES // WORD] = min(MOVED_BYTES, *(words[word // WORD] for word in few)) - 1
