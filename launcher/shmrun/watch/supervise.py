"""The loop that watches the ranks of a job. What it adds to `shmcoll/startup/watcher.py`:

SIGINT SIGTERM SIGHUP        is passed on to all ranks, once each; a second SIGINT kills them at once
SIGQUIT                      a table of where the ranks are is printed, and the job goes on
SIGINT SIGTERM               the same table comes first if ranks have waited for others for some time; else before the
                             ranks are killed, or after the grace period, if ranks still run then
SIGTSTP (Ctrl-Z)             the ranks are stopped, and then the launcher; after SIGCONT to any of them all go on
rank 0 wants the terminal    it gets the terminal, or the job is stopped (`shmrun/start/terminal.py`)
the time limit is over       the same table, before the ranks are ended
output, a report             is read as far as it has arrived
a stall                      is reported (`stall_warning.py`)
the starter of children      the ranks are ended: `shmcoll/startup/children.py`
ends
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass

from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import names
from shmcoll.startup.watcher import Watcher
from shmrun.start import log_files
from shmrun.start.prepare import Job
from shmrun.start.rank import Rank
from shmrun.start.spawn import READ
from shmrun.start.terminal import Terminal
from shmrun.watch import signals
from shmrun.watch.output import Sink, Stream
from shmrun.watch.stall_warning import StallWarning

_YOUNG = 1.0  # seconds: in a job of this age nobody has waited for long
_STACKS_PATIENCE = 0.3  # seconds: how long an interrupt waits for stacks


@dataclass(frozen=True)
class Outcome:
    """The outcome of the job. interrupted: the first signal that was forwarded. late: ranks that ran when the time was
    over. has_lost_output: some could not be written. has_lost_reader: for some nobody was there to read it."""

    arena: Arena
    ranks: list[Rank]
    grace: float
    timeout: float | None
    interrupted: int
    late: list[int]
    has_lost_output: bool
    has_lost_reader: bool

    @property
    def failed(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.failed]


def watch(job: Job, ranks: list[Rank]) -> Outcome:
    """Watch the ranks until all have ended and all their output is written; leave no process behind."""
    watcher = _JobWatcher(job, ranks)
    try:
        watcher.watch()
    finally:
        watcher.end()
    ended = watcher.interrupted, watcher.late, watcher.has_lost_output, watcher.has_lost_reader
    return Outcome(job.arena, watcher.ranks, watcher.grace, watcher.timeout, *ended)


class _JobWatcher(Watcher[Rank]):
    def __init__(self, job: Job, ranks: list[Rank]):
        options = job.options
        stops = options.on_failure == "stop"
        super().__init__(job.arena, ranks, grace=options.grace, timeout=options.timeout, stops=stops)
        self.interrupted = 0
        self._python = job.python  # no stacks can be read from any other program
        self._sinks = {number: Sink(number) for number in (1, 2)}
        self._streams = [pair for rank in self.ranks for pair in self._make_streams(rank, options.tag_output)]
        self._stall = StallWarning(job.arena, options.stall_warning) if options.stall_warning else None
        self.has_lost_output = False
        self._is_over = False  # whether the time limit is over
        self._forwarded: set[int] = set()
        self._began = time.monotonic()
        self._has_told = False  # whether the table has been printed since the first interrupt
        self._look_when: float | None = None  # the time at which interrupted ranks should have ended
        self._terminal = self.ranks[0].terminal
        self._known: set[int] = set()  # signals of the terminal that the front will pass on once more
        self._signals = signals.catch(READ)
        self._starter = job.starter

    def end(self) -> None:
        """Reap all ranks, and end the processes that failed ones may have left in their groups."""
        has_failed = any(rank.failed for rank in self.ranks)
        self.clean_up(signal.SIGTERM if has_failed else None)

    def _make_streams(self, rank: Rank, marked: bool) -> Iterator[tuple[Rank, Stream]]:
        log = log_files.append(rank.log) if rank.log and rank.output else None
        for channel in rank.output:
            sink = self._sinks[channel.numbers[0]]
            self._sinks.update(dict.fromkeys(channel.numbers, sink))
            sink.streams.append(Stream(rank.number, channel.read, marked=marked, log=log))
            yield rank, sink.streams[-1]

    # --- hooks of Watcher ---------------------------------------------------------------------------------------------

    def sources(self) -> Iterator[tuple[int, int]]:
        yield self._signals, select.POLLIN
        if self._starter is not None:
            yield self._starter, select.POLLIN
        for rank in self.living():
            if rank.is_reporting:
                yield rank.report_fd, select.POLLIN
        for sink in self._sinks.values():
            yield from sink.sources()

    def wakes(self) -> Iterator[float]:
        for sink in self._sinks.values():
            yield from sink.wakes()
        if self._stall and not self.is_ending and self.living():
            yield self._stall.when
        if self._look_when is not None and self.living():
            yield self._look_when

    def has_work(self) -> bool:
        return any(sink.is_busy for sink in self._sinks.values())

    def handle(self, ready: set[int]) -> None:
        if self._signals in ready:
            for signum, sender in signals.read(self._signals):
                if signum == signal.SIGCHLD:
                    self._look_at_reader()
                elif not sender and self._terminal and self._terminal.is_lent:
                    self._handle_key(signum, self._terminal)
                elif sender == os.getppid() and signum in self._known:
                    self._known.remove(signum)
                elif (signum, sender) != (signal.SIGCONT, os.getpid()):  # we are perhaps in the group of rank 0
                    self._handle_signal(signum)
        if self._starter is not None and self._starter in ready:
            self._starter = None
            self.end_ranks()
        for sink in set(self._sinks.values()):
            if sink.fd in ready:
                if self._refuses(sink):
                    self._stop(signal.SIGTTOU)
                else:
                    sink.write_some()
                    self._report_loss(sink)
        if self._stall and not self.is_ending and time.monotonic() >= self._stall.when:
            self._report_stall(self._stall)
        if self._look_when is not None and self.living() and time.monotonic() >= self._look_when:
            self._look_when = None
            self._tell_once()

    def read(self, ready: set[int]) -> None:
        if self._terminal and self.ranks[0].status is not None:
            self._terminal.take_back()
        for rank, stream in self._streams:
            stream.ended = None if rank.status is None else rank.ended / 1e9
        for sink in set(self._sinks.values()):
            sink.read(ready)
        for rank in self.ranks:
            if rank.is_reporting and (rank.report_fd in ready or rank.status is not None):
                rank.read_report()

    def time_is_over(self) -> None:
        self._is_over = True
        if self.late and (self._python or os.environ.get("SHMCOLL_DUMP")):
            text = f"the limit of {self.timeout:g} s (--timeout) is over; still running: {names(self.late)}"
            self._print_where(cause="time limit", text=text)

    def has_sent(self, signum: signal.Signals) -> None:
        if signum == signal.SIGKILL and self._is_over:
            self._stop_writing()

    # --- signals to the launcher --------------------------------------------------------------------------------------

    def _look_at_reader(self) -> None:
        """Give rank 0 the terminal if it has stopped for it. In the background, stop the job."""
        if not self._terminal:
            return
        with contextlib.suppress(ChildProcessError):
            changed = os.waitid(os.P_PID, self.ranks[0].pid, os.WSTOPPED | os.WNOHANG)
            if changed and changed.si_status in (signal.SIGTTIN, signal.SIGTTOU):
                if self._terminal.is_ours():
                    self._terminal.lend()
                else:
                    self._show_prompt()
                    self._stop(signal.Signals(changed.si_status))

    def _show_prompt(self) -> None:
        """Print what rank 0 has printed before it stopped, as far as the reader accepts it."""
        self.read({stream.fd for _, stream in self._streams})
        self._show_pending()

    def _show_pending(self) -> None:
        """Print what is to be printed, as far as the reader accepts it."""
        for sink in set(self._sinks.values()):
            if sink.pending and select.select([], [sink.fd], [], 0)[1] and not self._refuses(sink):
                sink.write_some()

    def _refuses(self, sink: Sink) -> bool:
        return self._terminal is not None and os.isatty(sink.fd) and self._terminal.refuses_output()

    def _handle_key(self, signum: signal.Signals, terminal: Terminal) -> None:
        """Handle a signal that the terminal has sent to the group of rank 0, and so to this process."""
        if signum in (signal.SIGINT, signal.SIGHUP):
            self._known.add(signum)
            self._handle_signal(signum, {0})
        os.killpg(terminal.front, signum)

    def _handle_signal(self, signum: signal.Signals, has_it: Container[int] = ()) -> None:
        """Handle a signal. has_it: the ranks that have got it already."""
        if signum == signal.SIGQUIT:
            self._print_where()
        elif signum == signal.SIGTSTP:
            self._stop()
        elif signum == signal.SIGCONT:
            self._send(signal.SIGCONT)
        elif signum not in self._forwarded:
            if signum != signal.SIGHUP and self._some_wait():
                self._tell_once(f"interrupted by {signal.Signals(signum).name} while ranks wait")
            self._forward(signum, has_it)
            self._look_when = self._look_when or time.monotonic() + self.grace
        elif signum == signal.SIGINT:
            self._tell_once()
            self._show_pending()
            self.end_ranks(signal.SIGKILL)
            self._stop_writing()

    def _report_loss(self, sink: Sink) -> None:
        if sink.failure and not self.has_lost_output:
            self.has_lost_output = True
            why = sink.failure.strerror
            self._sinks[2].say(f"shmrun: cannot write the output: {why}; the job goes on, and the rest is dropped")

    def _report_stall(self, stall: StallWarning) -> None:
        if line := stall.look():
            self._sinks[2].say(f"shmrun: {line}")

    def _some_wait(self) -> bool:
        """Return whether ranks have waited for others for some time. Their end will hide for whom."""
        if len(self.living()) < 2 or self.is_ending or time.monotonic() - self._began < _YOUNG:
            return False
        from shmcoll.diagnostics.hang_report import PATIENCE
        from shmcoll.diagnostics.rank_status import standings

        return any(s.blames and s.since >= PATIENCE for s in standings(self.arena))

    def _tell_once(self, text: str = "") -> None:
        """Print where the ranks are, unless this has been done since the first interrupt. text: what has happened, if
        ranks wait."""
        if not self._has_told and (self._python or (text and os.environ.get("SHMCOLL_DUMP"))):
            self._print_where(_STACKS_PATIENCE, "interrupt" if text else "", text)
        self._has_told = True

    def _print_where(self, limit: float = 1.0, cause: str = "", text: str = "") -> None:
        """Print where every rank is. cause, text: as in `Watcher.where`; the end of a job that is no Python program is
        only kept."""
        where = self.where(limit, cause, text)
        if self._python or not cause:
            self._sinks[2].say(f"shmrun: where the ranks are:\n{where}")

    def was_interrupted(self) -> bool:
        return bool(self.interrupted)

    def cannot_keep(self, why: str) -> None:
        self._sinks[2].say(f"shmrun: {why}")

    def _forward(self, signum: signal.Signals, has_it: Container[int]) -> None:
        self._forwarded.add(signum)
        if not self.is_ending and not self.interrupted:
            self.interrupted = signum
        self._send(signum, has_it)

    def _send(self, signum: signal.Signals, has_it: Container[int] = ()) -> None:
        for rank in self.living():
            if rank.number not in has_it:
                rank.send(signum)

    def _stop(self, signum: signal.Signals = signal.SIGSTOP) -> None:
        """Stop the job, as a shell stops what runs in a terminal. The time until it goes on does not count."""
        self._send(signal.SIGSTOP)  # SIGTSTP would be ignored: no shell manages our session
        stopped = time.monotonic()
        signal.raise_signal(signum)
        mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})  # SIGTTOU: this process stops here
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # The process in the foreground has stopped, too (`shmrun/start/foreground.py`).
        os.kill(os.getppid(), signal.SIGCONT)
        self.postpone(time.monotonic() - stopped)

    @property
    def has_lost_reader(self) -> bool:
        return any(sink.has_lost_reader for sink in self._sinks.values())

    def _stop_writing(self) -> None:
        """Stop writing, because the reader of our output may never read it."""
        for sink in self._sinks.values():
            sink.give_up()
