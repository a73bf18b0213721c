"""The loop that watches ranks: one thread, one poll. shmrun and the server of `shmcoll.run` share it.

The events, and what follows. No process waits forever, because each wait here has a time limit or another end:

    a rank ends as it should    its record says departed, and all doorbells ring: an error only for ranks that need it
    a rank reports an           its record says so, and the world is aborted (collectives raise `RankFailed`)
    exception, or fails
    the first rank fails        what the ranks do is kept, if that is asked for (`diagnostics/job_dump.py`)
    a rank fails                the others have `grace` seconds to end, unless they may go on. Then they are ended
    the time limit is over      all are ended
    ranks are to be ended       SIGTERM, and `grace` later SIGKILL (`end_ranks`)
    the watcher dies            the kernel kills the ranks (`rank_process.die_with`)

Signals are sent to process groups, so that they reach the processes that a rank has started. A group has its leader's
pid. No other process may get this pid, so ranks that have ended are reaped only at the very end. Their end is noticed
by pidfd.
"""

import select
import signal
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic

from shmcoll.diagnostics import keeping
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.system import log
from shmcoll.startup import exits
from shmcoll.startup.exits import AnyRank

if TYPE_CHECKING:
    from shmcoll.diagnostics.job_dump import Taken

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


class Watcher(Generic[AnyRank]):
    """Watches `ranks`. A subclass overrides the hooks for other events: signals, output, messages.

    late: the ranks that still ran when the time was over. stops: whether a failure ends the other ranks.
    """

    def __init__(self, arena: Arena, ranks: list[AnyRank], *, grace: float, timeout: float | None, stops: bool):
        self.arena = arena
        self.ranks = ranks
        self.grace = grace
        self.timeout = timeout
        self.late: list[int] = []
        self.is_ending = False  # whether the ranks are being ended, for any reason
        self._stops = stops
        self._deadline: float | None = None
        self._steps: list[tuple[float, signal.Signals]] = []  # times and signals for ranks that should end

    # --- hooks --------------------------------------------------------------------------------------------------------

    def sources(self) -> Iterable[tuple[int, int]]:
        """Return the descriptors to wait for besides the ends of ranks, each with its events."""
        return ()

    def wakes(self) -> Iterable[float]:
        """Return the times (`time.monotonic`) at which the loop runs, even if nothing has happened."""
        return ()

    def has_work(self) -> bool:
        """Return whether there is something left to do when all ranks have ended."""
        return False

    def handle(self, ready: set[int]) -> None:
        """Do what is due before the ends of ranks are checked. ready: the descriptors that are ready."""

    def read(self, ready: set[int]) -> None:
        """Read what ranks have written, after it is known which have ended: these will write nothing more."""

    def time_is_over(self) -> None:
        """React to the end of the time limit. `late` is known, and no signal has been sent yet."""

    def has_sent(self, signum: signal.Signals) -> None:
        """React to a signal that has been sent to all ranks so that they end."""

    def was_interrupted(self) -> bool:
        """Return whether ranks have got a signal that ends them, which is no failure of theirs."""
        return False

    def cannot_keep(self, why: str) -> None:
        """Say why what the ranks did cannot be kept, in one line."""
        log.error(why)

    # --- what subclasses call -----------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch until all ranks have ended. The time limit counts from now."""
        if self.timeout is not None:
            self._deadline = time.monotonic() + self.timeout
        self.watch_while(lambda: bool(self.living()) or self.has_work())

    def watch_while(self, condition: Callable[[], bool]) -> None:
        """Watch as long as the condition holds, which an event may end."""
        while condition():
            ready = self._poll()
            self.handle(ready)
            self._note_ends(ready)
            self._keep_time()

    def living(self) -> list[AnyRank]:
        return [rank for rank in self.ranks if rank.status is None]

    def end_ranks(self, first: signal.Signals = signal.SIGTERM, after: float = 0.0) -> None:
        """Send the ranks a signal `after` so many seconds, and each stronger one (SIGINT, SIGTERM, SIGKILL) a grace
        period later, in place of signals that were to be sent."""
        signums = _SIGNALS[_SIGNALS.index(first) :]
        begin = time.monotonic() + after
        self.is_ending, self._steps = True, [(begin + i * self.grace, signum) for i, signum in enumerate(signums)]

    def clean_up(self, leftovers: signal.Signals | None) -> None:
        """Reap all ranks. Those that still run, after an error of ours, are killed first. leftovers: the signal for
        processes that ranks have left in their groups, if these are to end."""
        for rank in self.living():
            rank.send(signal.SIGKILL)
        for rank in self.ranks:
            if leftovers:
                rank.send(leftovers)
            rank.reap()

    def where(self, limit: float, cause: str = "", text: str = "", patience: float = 1.0) -> str:
        """Return the table of where every rank is, and keep it if the job ends because of it (`job_dump.py`).

        The ranks have `limit` seconds to give their stacks; meanwhile nothing else happens. cause, text: why the job
        ends, as for `job_dump.take`; empty if it goes on. An interrupt is no failure, unless ranks wait. patience:
        shorter waits do not count.
        """
        from shmcoll.diagnostics import job_dump  # numpy comes with it
        from shmcoll.diagnostics.hang_report import has_waits, look, report

        found, below = look(self.arena, stacks=True, limit=limit, pids=self._pids())
        if cause and (cause != job_dump.INTERRUPT or has_waits(found, patience)):
            taken = job_dump.take(self.arena, cause, text, found=found, below=below)
            keeping.keep(taken, say=self.cannot_keep)
        return report(found, below, patience)

    def postpone(self, seconds: float) -> None:
        """Extend all limits, because the job was stopped for `seconds`."""
        if self._deadline is not None:
            self._deadline += seconds
        self._steps = [(when + seconds, signum) for when, signum in self._steps]

    # --- the loop -----------------------------------------------------------------------------------------------------

    def _poll(self) -> set[int]:
        """Return the descriptors that are ready. The list is built each time, because it depends on the state."""
        poll = select.poll()
        for rank in self.living():
            poll.register(rank.pidfd, select.POLLIN)
        for fd, events in self.sources():
            poll.register(fd, events)
        limits = [*self.wakes(), *(when for when, _ in self._steps[:1])]
        if self._deadline is not None:
            limits.append(self._deadline)
        wait = max(0.0, min(limits) - time.monotonic()) * 1000 if limits else None
        return {fd for fd, _ in poll.poll(wait)}

    def _note_ends(self, ready: set[int]) -> None:
        ended = [rank for rank in self.living() if rank.pidfd in ready and rank.note_end()]
        self.read(ready)
        failed = [rank for rank in self.ranks if not rank.is_recorded and (rank.failed or rank.raised)]
        taken = self._take(exits.in_order(failed))
        for rank in exits.in_order(failed):
            rank.record_failure(self.arena)
        keeping.keep(taken, say=self.cannot_keep)
        for rank in ended:
            if not rank.is_recorded:
                rank.record_departure(self.arena)
        if self._stops and not self.is_ending and any(rank.failed for rank in self.ranks):
            self.end_ranks(after=self.grace)

    def _take(self, failed: list[AnyRank]) -> "Taken | None":
        """Return what the ranks did when the first one failed, before the others learn of it."""
        if not failed or self.is_ending or self.was_interrupted():
            return None
        first, patience, pids = failed[0], keeping.STACKS_PATIENCE, self._pids()
        cause, text = first.how_it_failed(self.arena)
        return keeping.take(self.arena, cause, text, rank=first.number, subject=True, patience=patience, pids=pids)

    def _pids(self) -> dict[int, int]:
        return {rank.number: rank.pid for rank in self.living()}

    def _keep_time(self) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._deadline = None
            if not self.is_ending:
                self.late = [rank.number for rank in self.living()]
            self.time_is_over()
            self.end_ranks()
        while self._steps and self._steps[0][0] <= time.monotonic():
            _, signum = self._steps.pop(0)
            for rank in self.ranks:
                rank.send(signum)
            for rank in self.living():
                rank.ended_by = signum
            self.has_sent(signum)
