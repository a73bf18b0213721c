"""The loop that watches the ranks: one thread, one poll.

What can happen, and what then happens. Nobody waits for ever, because each wait here has a time limit or a way out:

    a rank ends with 0           its record says departed, and all doorbells ring: only who needs it will mind
    a rank fails                 its record says how, the world is aborted (collectives raise `RankFailed`), and the
                                 others have `grace` seconds to end; then all get SIGTERM, after `grace` more SIGKILL;
                                 with `--on-failure continue` they have all the time they want
    SIGINT SIGTERM SIGHUP        sent on to all ranks, once each; a second SIGINT kills them at once
    SIGQUIT                      a table of where the ranks are is printed, and the job goes on
    SIGTSTP (Ctrl-Z)             the ranks are stopped, and then the launcher; with SIGCONT to any of them all go on
    the time limit is over       the same table; then as after a failure, but SIGTERM at once
    output, a report             is read as far as it has come
    the launcher dies            the kernel kills the ranks (see `spawn`)

Signals go to process groups, so that they reach what a rank has started. A group bears its leader's pid; that no other
process may get this pid, ranks that have ended are reaped at the very end only. Death is noticed by pidfd.
"""

import os
import select
import signal
import time
from dataclasses import dataclass, field

from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmrun.cli.options import Options
from shmrun.start import log_files
from shmrun.start.foreground import FORWARDED
from shmrun.start.prepare import Job
from shmrun.start.spawn import Child, Children
from shmrun.watch.output import Sink, Stream
from shmrun.watch.rank import Rank


@dataclass
class Outcome:
    """How the job went. `interrupted`: the first signal that was forwarded; `late`: who ran when the time was over."""

    arena: Arena
    ranks: list[Rank]
    grace: float
    timeout: float | None
    interrupted: int = 0
    late: list[int] = field(default_factory=list)

    @property
    def failed(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.status]


def watch(job: Job, children: Children) -> Outcome:
    """Watch the ranks until all have ended and all their output is written; leave no process behind."""
    watcher = _Watcher(job, children)
    try:
        watcher.run()
    finally:
        watcher.clean_up()
    return watcher.outcome


class _Watcher:
    def __init__(self, job: Job, children: Children):
        sinks = (Sink(1), Sink(2))
        options = job.options
        self.arena = job.arena
        ranks = [_rank(child, sinks, options) for child in children.ranks]
        self.outcome = Outcome(job.arena, ranks, options.grace, options.timeout)
        self._python = job.program.python  # else nobody could tell where it is
        self._stops = options.on_failure == "stop"
        self._sinks = sinks
        self._deadline = time.monotonic() + options.timeout if options.timeout else None
        self._steps: list[tuple[float, signal.Signals]] = []  # when to send what to ranks that should end
        self._ending = False  # whether such steps have begun, for whatever reason
        self._over = False  # whether the time limit is
        self._forwarded: set[int] = set()
        self._arrived = self._catch_signals(children)

    def run(self) -> None:
        while self._living() or self._pending():
            ready = self._poll()
            self._handle_signals(ready)
            for sink in self._sinks:
                if sink.fd in ready:
                    sink.write_some()
            self._note_ends(ready)
            self._read(ready)
            self._keep_time()

    def clean_up(self) -> None:
        """Reap all ranks. Only after an error of ours are there any to kill."""
        for rank in self._living():
            rank.send(signal.SIGKILL)
        for rank in self.outcome.ranks:
            if self.outcome.failed:
                rank.send(signal.SIGTERM)  # what failed ranks may have left behind in their groups
            rank.reap()

    def _living(self) -> list[Rank]:
        return [rank for rank in self.outcome.ranks if rank.status is None]

    def _streams(self) -> list[tuple[Rank, Stream]]:
        return [(rank, stream) for rank in self.outcome.ranks for stream in rank.streams if stream.open]

    def _pending(self) -> bool:
        return any(sink.pending for sink in self._sinks) or bool(self._streams())

    # --- what the loop waits for --------------------------------------------------------------------------------------

    def _poll(self) -> set[int]:
        """The descriptors that are ready. Built anew each time: what to wait for follows from the state alone."""
        poll = select.poll()
        poll.register(self._arrived, select.POLLIN)
        for rank in self._living():
            poll.register(rank.child.pidfd, select.POLLIN)
            if rank.reporting:
                poll.register(rank.child.report, select.POLLIN)
        for _, stream in self._streams():
            if not stream.sink.full:
                poll.register(stream.fd, select.POLLIN)
        for sink in self._sinks:
            if sink.pending:
                poll.register(sink.fd, select.POLLOUT)
        limits = [when for when, _ in self._steps[:1]]
        if self._deadline:
            limits.append(self._deadline)
        wait = max(0.0, min(limits) - time.monotonic()) * 1000 if limits else None
        return {fd for fd, _ in poll.poll(wait)}

    def _catch_signals(self, children: Children) -> int:
        """Have signals written to a pipe from now on; returns the end to read. Ignored ones stay so (nohup)."""
        arrived, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for signum in FORWARDED:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                signal.signal(signum, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, children.mask)
        return arrived

    # --- what can happen ----------------------------------------------------------------------------------------------

    def _handle_signals(self, ready: set[int]) -> None:
        if self._arrived not in ready:
            return
        for number in os.read(self._arrived, 4096):
            if number not in FORWARDED:
                continue
            if number == signal.SIGQUIT:
                self._tell_where()
            elif number == signal.SIGTSTP:
                self._stop()
            elif number == signal.SIGCONT:
                self._send(signal.SIGCONT)
            elif number not in self._forwarded:
                self._forward(signal.Signals(number))
            elif number == signal.SIGINT:
                self._ending, self._steps = True, [(0.0, signal.SIGKILL)]
                self._stop_writing()

    def _tell_where(self) -> None:
        """Print where every rank is. The ranks have a second to give their stacks; meanwhile nothing else happens."""
        from shmcoll.diagnostics.hang_report import inquest

        pids = {rank.number: rank.child.pid for rank in self._living()}
        text = inquest(self.arena, stacks=True, pids=pids)
        self._sinks[1].pending += f"shmrun: where the ranks are:\n{text}\n".encode()

    def _forward(self, signum: signal.Signals) -> None:
        self._forwarded.add(signum)
        if not self._ending and not self.outcome.interrupted:
            self.outcome.interrupted = signum
        self._send(signum)

    def _send(self, signum: signal.Signals) -> None:
        for rank in self._living():
            rank.send(signum)

    def _stop(self) -> None:
        """Stop the job, as a shell does with what runs in a terminal. The time until it goes on counts for no limit."""
        self._send(signal.SIGSTOP)  # SIGTSTP would be ignored: no shell looks after our session
        stopped = time.monotonic()
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(
            os.getppid(), signal.SIGCONT
        )  # the process that stands for us has stopped, too (`shmrun/start/foreground.py`)
        gone_by = time.monotonic() - stopped
        self._deadline = self._deadline and self._deadline + gone_by
        self._steps = [(when + gone_by, signum) for when, signum in self._steps]

    def _read(self, ready: set[int]) -> None:
        for rank, stream in self._streams():
            if stream.fd in ready or rank.status is not None:
                stream.read_some(ended=rank.status is not None)
        for rank in self._living():
            if rank.child.report in ready:
                rank.read_report()

    def _note_ends(self, ready: set[int]) -> None:
        ended = [rank for rank in self._living() if rank.child.pidfd in ready and rank.note_end()]
        # Of ranks found dead together, those killed by a signal come first: others may have ended because of them.
        for rank in sorted(ended, key=lambda rank: (rank.status or 0) >= 0):
            if rank.status:
                self._note_failure(rank, rank.status)
            else:
                records.write(self.arena, rank.number, layout.BY_LAUNCHER, records.DEPARTED)
                Group.world(self.arena).ring()

    def _note_failure(self, rank: Rank, status: int) -> None:
        cause = records.KILLED if status < 0 else records.EXITED
        records.write(self.arena, rank.number, layout.BY_LAUNCHER, records.FAILED, cause, abs(status), rank.failure())
        Group.world(self.arena).abort()
        if self._stops and not self._ending:
            now, grace = time.monotonic(), self.outcome.grace
            self._ending, self._steps = True, [(now + grace, signal.SIGTERM), (now + 2 * grace, signal.SIGKILL)]

    def _stop_writing(self) -> None:
        """Whoever should read our output may never do it."""
        for sink in self._sinks:
            sink.give_up()

    def _keep_time(self) -> None:
        now, grace = time.monotonic(), self.outcome.grace
        if self._deadline and now >= self._deadline:
            self._deadline, self._over = None, True
            if not self._ending:
                self.outcome.late = [rank.number for rank in self._living()]
                if self._python:
                    self._tell_where()
            self._ending, self._steps = True, [(now, signal.SIGTERM), (now + grace, signal.SIGKILL)]
        while self._steps and self._steps[0][0] <= now:
            _, signum = self._steps.pop(0)
            for rank in self.outcome.ranks:
                rank.send(signum)
            for rank in self._living():
                rank.ended_by_us = signum
            if signum == signal.SIGKILL and self._over:
                self._stop_writing()


def _rank(child: Child, sinks: tuple[Sink, Sink], options: Options) -> Rank:
    path, log = options.log(child.rank), None
    if path and child.output:
        log = log_files.append(path)
    streams = [
        Stream(child.rank, fd, sink, marked=options.tag_output, log=log)
        for fd, sink in zip(child.output, sinks, strict=False)
    ]
    return Rank(child, streams, path)
