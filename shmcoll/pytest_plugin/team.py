"""The ranks that run tests, seen from pytest's process, which has started them: `messages.py` has the order of the
messages, `startup/watcher.py` what follows when a rank dies.

A team ends when the tests that follow want another number of ranks, and after a test that failed in any way, because
nothing is known then about the state of its ranks.
"""

import contextlib
import os
import pickle
import re
import select
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from shmcoll.diagnostics import rank_status
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system import refusals
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.text import to_text
from shmcoll.errors import ShmcollError
from shmcoll.pytest_plugin import coverage, fixtures, marks, spawned
from shmcoll.pytest_plugin.messages import Ask, Exit, Granted, Phase, RankReport, Run, Teardown
from shmcoll.pytest_plugin.rank import Files, RankSide, read
from shmcoll.runner import protocol
from shmcoll.runner.protocol import Answered
from shmcoll.runner.rank import Rank
from shmcoll.runner.stuck_ranks import StuckRanks
from shmcoll.startup import exits, join, rank_process
from shmcoll.startup.defaults import GRACE, WAIT_TIMEOUT
from shmcoll.startup.watcher import Watcher

_STACKS_PATIENCE = 0.5  # seconds: how long ranks have to give their stacks
_PYTEST = r"/(_pytest|pytest|pluggy|shmcoll/pytest_plugin|shmcoll/runtime(?=/user_code))/"
#: lines of pytest in the stacks of a table, and of faulthandler
_OF_PYTEST = re.compile(rf'^ {{6}}\S*{_PYTEST}\S+:\d+ in |^  File "([^"]*{_PYTEST}[^"]*|<frozen runpy>)", line \d+ in ')
_MOST_GROUPS = 100  # that tests may leave open; a rank can lead about 500
_NO_LIMIT = 1e9  # seconds, while a debugger may hold a rank up
_count = 0  # of the teams of this process


@dataclass
class Member(Rank):
    """A rank of the team. reports: those of the present test, by phase. shown: how much of its output they contain."""

    files: Files = field(kw_only=True)
    reports: dict[str, RankReport] = field(default_factory=dict, init=False)
    shown: list[int] = field(default_factory=lambda: [0, 0], init=False)

    def close(self) -> None:
        super().close()
        self.files.close()

    @property
    def phase(self) -> str:
        """The phase that it is in, or was in when it ended."""
        if "setup" not in self.reports:
            return "setup"
        has_run = "call" in self.reports or self.reports["setup"].report["outcome"] != "passed"
        return "teardown" if has_run else "call"


@dataclass
class Loss:
    """A rank that has ended within a test. how: in words. phase: where. output: what it printed after its last report.
    is_consequence: whether another failure was the reason."""

    how: str
    phase: str
    output: list[tuple[str, str]]
    is_consequence: bool


class Team(Watcher[Member]):
    """So many ranks, for the tests of a session from this one on."""

    def __init__(self, item: pytest.Item, number: int):
        global _count
        _count += 1
        config = item.config
        self.number = number
        self.losses: dict[int, Loss] = {}
        self.table = ""
        self.exit: Exit | None = None
        self._config = config
        factory = getattr(config, "_tmp_path_factory", None)
        self._folder = factory.getbasetemp() if factory else Path()
        self._name = f"team{_count}"
        self._tests = 0
        self._debugs = bool(config.getoption("usepdb") or config.getoption("trace"))
        self._holder: Member | None = None  # has the terminal
        self._has_held = False
        self._too_late = ""
        with refusals.in_words():
            timeout = _NO_LIMIT if self._debugs else join.seconds("SHMCOLL_TIMEOUT", WAIT_TIMEOUT)
            super().__init__(arenas.create(number, timeout=timeout), [], grace=GRACE, timeout=None, stops=False)
        self._stuck = StuckRanks(self.arena, self.ranks, "has ended its part of the test")
        try:
            self._start(item)
        except BaseException:
            self.kill()
            raise

    # --- one test -----------------------------------------------------------------------------------------------------

    def run(self, item: pytest.Item, timeout: float | None) -> None:
        """Run a test up to the end of its call."""
        self._tests += 1
        self._too_late, self._has_held = "", False
        for rank in self.ranks:
            rank.reports.clear()
        self._deadline = None if timeout is None or self._debugs else time.monotonic() + timeout
        self._limit = timeout
        self._say(Run(item.nodeid, str(self.tmp_path(item))))

    def tear_down(self, nextitem: str | None) -> None:
        """End the test that has run. nextitem: the test that follows on these ranks; None: they end."""
        self._say(Teardown(nextitem))

    def is_sound(self) -> bool:
        """Return whether another test can run on these ranks: all are there, and all have passed or been skipped
        alike."""
        reports = [report.report for rank in self.ranks for report in rank.reports.values()]
        if self._has_ended() or self.left_messages() or len(rank_status.open_groups(self.arena)) > _MOST_GROUPS:
            return False
        skipped = sum(report["outcome"] == "skipped" and "wasxfail" not in report for report in reports)
        passed = sum(report["outcome"] == "passed" for report in reports)
        return passed + skipped == len(reports) and skipped in (0, self.number)

    def left_messages(self) -> str:
        """Return which messages the test has left that no rank has received, in words."""
        reports = [(rank.number, rank.reports.get("teardown")) for rank in self.ranks]
        return "; ".join(f"rank {number}: {report.left}" for number, report in reports if report and report.left)

    def _has_ended(self) -> bool:
        """Return whether a rank is missing, or the group of all ranks has ended."""
        return bool(self.losses) or len(self.living()) < self.number or Group.world(self.arena).has_ended()

    def tmp_path(self, item: pytest.Item) -> Path:
        """Return the temporary directory of the present test, which its ranks make."""
        return self._folder / f"{fixtures.name_of_directory(item)}-{self._name}-{self._tests}"

    def end(self) -> dict[int, str]:
        """Have the ranks end. Returns how some have failed in that."""
        for rank in self.ranks:
            if rank.control:
                rank.is_leaving = True
                rank.control.close()
        self.end_ranks(after=2 * GRACE)
        try:
            self.watch_while(lambda: bool(self.living()))
            failed = [rank for rank in self.ranks if rank.status and rank.number not in self.losses]
            bad = {rank.number: _how_ended(rank) for rank in failed}
        finally:
            self.kill()
        return bad

    def kill(self) -> None:
        """End the ranks at once. Calling it again has no effect."""
        if self._holder:
            self._take_terminal_back()
        self.clean_up(signal.SIGKILL if self.living() else None)
        self.ranks.clear()
        if self.arena.fd >= 0:
            self.arena.close()
            self.arena.fd = -1

    def inquest(self) -> str:
        """Return the table of where every rank is."""
        try:
            return _without_pytest(self.where(_STACKS_PATIENCE, patience=0.0))
        except Exception as e:  # an error here must not keep the ranks from being ended
            reraise_of_handler(e)
            return f"(not known: {type(e).__name__}: {e})"

    # --- hooks of Watcher ---------------------------------------------------------------------------------------------

    def sources(self) -> Iterator[tuple[int, int]]:
        for rank in self.living():
            if rank.control and rank.control.fileno() >= 0:
                yield rank.control.fileno(), select.POLLIN

    def wakes(self) -> Iterable[float]:
        return [self._stuck.next_look] if self._is_half_answered() else []

    def read(self, ready: set[int]) -> None:
        for rank in self.ranks:
            if rank.control and rank.control.fileno() in ready:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    while data := rank.control.recv(protocol.LONGEST_MESSAGE):
                        self._hear(rank, data)

    def time_is_over(self) -> None:
        self.late = [rank.number for rank in self.ranks if rank.is_busy]
        if self.late:
            self._too_late = self._too_late or f"did not end within {self._limit:g} s"
            self.table = self.inquest()

    # --- starting -----------------------------------------------------------------------------------------------------

    def _start(self, item: pytest.Item) -> None:
        environment = dict(os.environ)
        try:
            rank_process.prepare_environment()
            spawns = marks.spawns(self._config)
            if not spawns:
                join.preload()
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for number in range(self.number):
                self._start_one(item, number, spawns)
        finally:
            os.environ.clear()
            os.environ.update(environment)

    def _start_one(self, item: pytest.Item, number: int, spawns: bool) -> None:
        starter, begin = os.getpid(), time.monotonic_ns()
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            files = Files.new()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # about threads: pytest's, which the rank lacks
                pid = os.fork()
            if pid == 0:
                ours.close()
                self._become(item, number, starter, theirs, files, spawns)
            theirs.close()
            ours.setblocking(False)
            self.ranks.append(Member(number, pid, -1, begin, ours, files=files))
            self.ranks[-1].pidfd = os.pidfd_open(pid)
        except OSError as e:
            raise ShmcollError(rank_process.cannot_start(number, self.number, e)) from e

    def _become(
        self, item: pytest.Item, number: int, starter: int, control: socket.socket, files: Files, spawns: bool
    ) -> NoReturn:
        """Turn into a rank, in the child."""
        try:
            rank_process.begin(starter, self.arena, number, "pytest")
            for other in self.ranks:
                other.close()
            folder = self._folder / f"{self._name}-rank{number}"
            captured = fixtures.captures(self._config)
            terminal = fixtures.terminal(self._config)
            output = (files.out, files.err) if captured else None
            if spawns:
                spawned.execute(item, number, self.arena.fd, control, files, terminal, output, folder)
            side = RankSide(item.session, number, control, files, terminal, captured)
            fixtures.begin_in_fork(item.session, folder, output)
            rank_process.begin_in_fork(self.arena)
            coverage.begin_in_fork()
            side.serve()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(126)

    # --- messages -----------------------------------------------------------------------------------------------------

    def _say(self, message: Run | Teardown) -> None:
        """Tell all ranks, and wait until each has answered or ended."""
        self._stuck.begin()
        for rank in self.living():
            rank.answered = None
            self._send(rank, message)
        try:
            self._watch(lambda: any(rank.is_busy for rank in self.ranks))
        except pytest.fail.Exception as late:  # of pytest-timeout, whose signal comes here
            self._too_late, self._deadline = f"did not end: {late}", time.monotonic()
            self._watch(lambda: any(rank.is_busy for rank in self.ranks))

    def _watch(self, condition: Callable[[], bool]) -> None:
        self.watch_while(condition)
        for rank in self.ranks:
            if rank.status is not None and rank.number not in self.losses:
                self.losses[rank.number] = self._loss(rank)

    def _send(self, rank: Member, message: Any) -> None:
        with contextlib.suppress(OSError):  # it has ended
            assert rank.control
            rank.control.send(pickle.dumps(message))

    def _hear(self, rank: Member, data: bytes) -> None:
        message = protocol.parse(data, object)
        if isinstance(message, Phase):
            report = protocol.parse(read(rank.files.reports, message.begin, message.end), RankReport)
            if report:
                rank.reports[message.when] = report
            rank.shown = [message.out, message.err]
            if message.is_last:
                rank.answered = Answered(rank.number, message.raised)
                if rank is self._holder:
                    self._take_terminal_back()
        elif isinstance(message, Ask):
            self._send(rank, Granted(self._grants(rank)))
        elif isinstance(message, Exit):
            self.exit = message

    def _loss(self, rank: Member) -> Loss:
        how, is_late = exits.describe(rank.status or 0), rank.number in self.late
        if is_late:
            how = self._too_late
        elif rank.ended_by:
            how = "did not end in time after another rank had failed"
        elif last := rank_status.last_operation(self.arena, rank.number):
            how = f"{how}; {last}"
        names = (("stdout", rank.files.out), ("stderr", rank.files.err))
        rest = [
            (f"Captured {name} {rank.phase}", _without_pytest(text))
            for (name, fd), begin in zip(names, rank.shown, strict=True)
            if (text := to_text(read(fd, begin)))
        ]
        return Loss(how, rank.phase, rest, bool(rank.ended_by) and not is_late)

    def _keep_time(self) -> None:
        super()._keep_time()
        if not self.is_ending and any(rank.status is not None for rank in self.ranks):
            self.end_ranks(after=GRACE)
        if self._is_half_answered():
            self._stuck.look()

    def _is_half_answered(self) -> bool:
        """Return whether a rank may wait for one that takes part in no more of this phase."""
        busy = [rank.is_busy for rank in self.ranks]
        return any(busy) and not all(busy) and not self.is_ending

    # --- the terminal -------------------------------------------------------------------------------------------------

    def _grants(self, rank: Member) -> bool:
        wanted = self._config.getoption("--pdb-rank")
        is_for_another = wanted in range(self.number) and wanted != rank.number
        if self._holder is not rank and (self._has_held or is_for_another):
            return False
        self._holder, self._has_held, self._deadline = rank, True, None
        self._config.hook.pytest_enter_pdb(config=self._config, pdb=None)  # pytest-timeout stops its clock
        _hand_terminal_to(rank.pid)
        return True

    def _take_terminal_back(self) -> None:
        self._holder = None
        _hand_terminal_to(os.getpgrp())


def _how_ended(rank: Member) -> str:
    """Return how a rank has failed after its last test."""
    if rank.ended_by:
        return f"did not end within {2 * GRACE:g} s after its last test: a thread or an exit handler is in the way"
    said = _without_pytest(to_text(read(rank.files.err, rank.shown[1]))).rstrip()
    return f"{exits.describe(rank.status or 0)} after its last test" + (f":\n{said}" if said else "")


def _without_pytest(text: str) -> str:
    """Return a text without the lines of stacks that are pytest's."""
    found: list[str] = []
    is_pytest = False
    for line in text.splitlines(keepends=True):
        is_pytest = bool(_OF_PYTEST.search(line)) or (is_pytest and line.strip() == "...")
        found += [] if is_pytest else [line]
    return "".join(found)


def _hand_terminal_to(group: int) -> None:
    """Make this process group the one that the terminal, if there is one, belongs to."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with contextlib.suppress(OSError), open(os.ctermid(), "rb") as terminal:
            os.tcsetpgrp(terminal.fileno(), group)
    finally:
        signal.signal(signal.SIGTTOU, before)
