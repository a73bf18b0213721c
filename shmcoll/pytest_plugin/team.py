"""The ranks that run tests, seen from pytest's process, which has started them: `messages.py` has the order of the
messages, `startup/watcher.py` what follows when a rank dies.

A team ends when the tests that follow want another number of ranks, and after a test that failed in any way, because
nothing is known then about the state of its ranks.
"""

import contextlib
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shmcoll.diagnostics import rank_status
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system import refusals
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.pytest_plugin import fixtures
from shmcoll.pytest_plugin.member import Loss, Member, how_ended, loss, without_pytest
from shmcoll.pytest_plugin.messages import Ask, Exit, Granted, Phase, RankReport, Run, Teardown
from shmcoll.pytest_plugin.rank import read
from shmcoll.pytest_plugin.start import Beginning, start
from shmcoll.runner import protocol
from shmcoll.runner.protocol import Answered
from shmcoll.runner.stuck_ranks import StuckRanks
from shmcoll.startup import join
from shmcoll.startup.defaults import GRACE, WAIT_TIMEOUT
from shmcoll.startup.watcher import Watcher

_STACKS_PATIENCE = 0.5  # seconds: how long ranks have to give their stacks
_MOST_GROUPS = 100  # that tests may leave open; a rank can lead about 500
_NO_LIMIT = 1e9  # seconds, while a debugger may hold a rank up
_count = 0  # of the teams of this process


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
            start(Beginning(item, self.arena, self._folder / self._name), self.ranks)
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
            bad = {rank.number: how_ended(rank) for rank in failed}
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
            return without_pytest(self.where(_STACKS_PATIENCE, patience=0.0))
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
                too_late = self._too_late if rank.number in self.late else ""
                self.losses[rank.number] = loss(rank, self.arena, too_late)

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


def _hand_terminal_to(group: int) -> None:
    """Make this process group the one that the terminal, if there is one, belongs to."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with contextlib.suppress(OSError), open(os.ctermid(), "rb") as terminal:
            os.tcsetpgrp(terminal.fileno(), group)
    finally:
        signal.signal(signal.SIGTTOU, before)
