"""`pytest --processes N`: N processes run the tests between them, because many tests wait more than they compute.

The process that has collected the tests forks the others, so that the tests are collected and the routines loaded once.
It runs no test itself. The others tell it the reports of their tests, which it shows and counts like its own. So its
summary, `--maxfail`, `--lf`, `--durations` and `--junitxml` are about all tests.

All processes cut the tests into the same shares, and each takes the next share that nobody has taken. A file counts the
shares that are taken: a process appends one byte, and the position behind its byte is the number of its share, counted
from 1. The kernel appends the bytes one after another, so each share has exactly one taker. Nobody waits for a share.

Reports: each process writes lines of JSON to a pipe of its own, which the first process reads all the time. A limit on
the size of files, which tests set, does not concern it. A test that its process begins and does not end, because that
process has ended, has failed. Its report says how the process has ended, and shows the end of the output, where the
stacks of a crash are.

The last round: when all have ended, one more process runs what has no result yet, alone. That is what failed, what a
process that died left of its share, and the tests marked `timing`. A test that failed and passes then is unsteady: the
summary shows why it had failed, and UNSTEADY counts it over the runs. More than MOST failures are no chance: then these
tests are not run again. `--maxfail` (`-x`) also leaves the last round out.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count, groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

PR_SET_PDEATHSIG = 1
LONGEST = 70  # tests of a file that one process runs: it sets up the fixtures of the file, and keeps what it computes
PART = 10  # tests of a longer file
USUAL = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}
MOST = 20  # tests that are run once more
LOOKS = 0.1  # seconds between two looks at the reports
SHOWN = 60  # lines of the output of a process that has died
END = "the end of the tests"  # the name of what fails if a process fails outside of tests
UNSTEADY = ".unsteady.json"  # in the root folder: how often each test was unsteady, and in how many runs


def shares(tests: Sequence[pytest.Item], are_single: bool = False) -> list[list[pytest.Item]]:
    """Cut tests into shares of one file. Parts of long files come last: these are short and many, so that all processes
    end together. are_single: each test is a share."""
    if are_single:
        return [[test] for test in tests]
    whole: list[list[pytest.Item]] = []
    parts: list[list[pytest.Item]] = []
    for _, group in groupby(tests, key=lambda test: test.path):
        one = list(group)
        if len(one) <= LONGEST:
            whole.append(one)
        else:
            parts += [one[i : i + PART] for i in range(0, len(one), PART)]
    return whole + parts


class Sharing:
    """A plug-in of pytest: run the tests in so many forks of this process."""

    def __init__(self, processes: int, begin: Callable[[], None], are_single: bool = False) -> None:
        """begin: what each process does first. are_single: whether they take single tests."""
        self._processes = processes
        self._begin = begin
        self._are_single = are_single
        self._results = Results()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Do what pytest's own loop does, in forks; it ends in each of them and in this process."""
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest's loop reports errors of collecting
        session.config.pluginmanager.register(self._results)
        shared = [test for test in session.items if not test.get_closest_marker("timing")]
        with _new_folder() as folder:
            names = (folder / str(number) for number in count())
            forks = [Fork(next(names)) for _ in range(self._processes)]
            if self._forked(session, forks, _mine(shares(shared, self._are_single), folder / "taken")):
                return True
            self._results.take_all(session, forks)
            while rest := self._results.unfinished(session):
                alone = Fork(next(names))
                if self._forked(session, [alone], iter(rest)):
                    return True
                self._results.take_all(session, [alone])
            self._results.give_up(session)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        return True

    def _forked(self, session: pytest.Session, forks: list["Fork"], tests: Iterator[pytest.Item]) -> bool:
        """Have the forks run tests. Returns whether this is a fork, in which they have run."""
        for fork in forks:
            if fork.begin(session.config):
                self._begin()
                session.config.pluginmanager.unregister(self._results)
                _run_all(session, tests)
                return True
        return False


class Results:
    """A plug-in that keeps what failed until it is known whether it fails again, and tells of unsteady tests."""

    def __init__(self) -> None:
        self._failed: dict[str, list[pytest.TestReport]] = {}
        self._ended: set[str] = set()
        self._is_over = False  # whether a process has failed outside of tests
        self.unsteady: dict[str, str] = {}

    def take_all(self, session: pytest.Session, forks: list["Fork"]) -> None:
        """Take the reports of these processes until all have ended."""
        try:
            while sum(fork.look(session, self) for fork in forks):
                if session.shouldfail or session.shouldstop:
                    break
                time.sleep(LOOKS)
        finally:
            for fork in forks:
                fork.end()

    def take(self, session: pytest.Session, reports: list[pytest.TestReport]) -> None:
        """Take the reports of a test that has ended."""
        nodeid = reports[0].nodeid
        self._is_over |= nodeid == END
        has_failed = any(report.failed for report in reports)
        earlier = self._failed.pop(nodeid, None)
        if has_failed and earlier is None and not session.config.option.maxfail:
            self._failed[nodeid] = reports
            return
        if earlier and not has_failed:
            self.unsteady[nodeid] = next(report.longreprtext for report in earlier if report.failed)
        self._ended.add(nodeid)
        for report in reports:
            session.config.hook.pytest_runtest_logreport(report=report)

    def unfinished(self, session: pytest.Session) -> list[pytest.Item]:
        """Return the tests for the last round, or, after a death in it, for one more."""
        if session.config.option.maxfail or self._is_over:
            return []
        leaves = self._failed if len(self._failed) > MOST else {}
        return [test for test in session.items if test.nodeid not in self._ended and test.nodeid not in leaves]

    def give_up(self, session: pytest.Session) -> None:
        """Report the failures of tests that have not run again."""
        for reports in list(self._failed.values()):
            self.take(session, reports)
        if self.unsteady or (session.config.rootpath / UNSTEADY).exists():
            _count(session.config.rootpath / UNSTEADY, self.unsteady)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unsteady:
            terminalreporter.section("unsteady: failed beside others, and passed alone", cyan=True)
        for nodeid, why in self.unsteady.items():
            terminalreporter.section(nodeid, sep="_")
            terminalreporter.write_line(why)
        for nodeid in self.unsteady:
            terminalreporter.write_line(f"UNSTEADY {nodeid}")


class Fork:
    """A process that runs tests. It writes what it prints to a file, and its reports to a pipe."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._told = b""  # the beginning of a line of the pipe
        self._reports: list[pytest.TestReport] = []  # of the test that runs
        self._test: tuple[str, Any] | None = None  # its name and location
        self._pid = 0

    def begin(self, config: pytest.Config) -> bool:
        """Fork the process, which ends with this one. Returns whether this is the fork."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        capture = config.pluginmanager.getplugin("capturemanager")
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid:
            os.close(self._writing)
            return False
        os.close(self._reading)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        capture.stop_global_capturing()  # its files are those of the other forks, too
        with self._output.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            os.dup2(file.fileno(), config.stash[fault_handler_stderr_fd_key])  # for the stacks of a crash or stuck test
        capture.start_global_capturing()
        capture.suspend_global_capture()
        config.workerinput = {}  # type: ignore[attr-defined]  # plug-ins leave their files to the first process
        config.pluginmanager.register(Telling(config, self._writing))
        return True

    def look(self, session: pytest.Session, results: Results) -> bool:
        """Take what it has told. Returns whether it still ran before that."""
        ended, status = os.waitpid(self._pid, os.WNOHANG) if self._pid else (1, 0)
        self._take(session, results)
        if self._pid and ended:
            self._pid = 0
            code = os.waitstatus_to_exitcode(status)
            if self._test or code not in USUAL:
                results.take(session, [*self._reports, self._death(code)])
        return not ended

    def _take(self, session: pytest.Session, results: Results) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._reading, 1 << 16):
                self._told += data
        *lines, self._told = self._told.split(b"\n")
        for told in map(json.loads, lines):
            if "begins" in told:
                self._test, self._reports = (told["begins"], told["at"]), []
            elif "ended" in told:
                self._test = None
                results.take(session, self._reports)
            else:
                report = session.config.hook.pytest_report_from_serializable(config=session.config, data=told)
                if isinstance(report.longrepr, list):  # JSON has no tuples
                    report.longrepr = tuple(report.longrepr)
                self._reports.append(report)

    def _death(self, code: int) -> pytest.TestReport:
        name, location = self._test or (END, ("", None, END))
        how = str(code) if code >= 0 else f"signal {-code} ({signal.Signals(-code).name})"
        shown = self._output.read_text(errors="replace").splitlines()[-SHOWN:]
        text = "\n".join([*shown, f"the process that ran it ended with {how}"])
        return pytest.TestReport(name, location, {}, "failed", text, "call")

    def end(self) -> None:
        """End the process, if an exception or too many failures have ended the run."""
        os.close(self._reading)
        if self._pid:
            os.kill(self._pid, signal.SIGTERM)
            os.waitpid(self._pid, 0)
            self._pid = 0


class Telling:
    """A plug-in of a fork: write the reports to a pipe."""

    def __init__(self, config: pytest.Config, pipe: int) -> None:
        self._config = config
        self._pipe = os.fdopen(pipe, "w", buffering=1)

    def _tell(self, told: Any) -> None:
        self._pipe.write(json.dumps(told) + "\n")

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._tell({"begins": nodeid, "at": location})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tell(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._tell({"ended": nodeid})


@contextlib.contextmanager
def _new_folder() -> Iterator[Path]:
    """Make a folder, which this process removes at the end, and no fork of it."""
    folder, owner = Path(tempfile.mkdtemp()), os.getpid()
    try:
        yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder)


def _run_all(session: pytest.Session, tests: Iterator[pytest.Item]) -> None:
    for test, following in pairwise(chain(tests, [None])):
        assert test is not None
        test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        if session.shouldfail or session.shouldstop:
            return


def _mine(all_shares: list[list[pytest.Item]], taken: Path) -> Iterator[pytest.Item]:
    """Take shares until there are none."""
    while (number := _append(taken)) <= len(all_shares):
        yield from all_shares[number - 1]


def _append(path: Path) -> int:
    """Append a byte to a file; return the position behind it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, b".")
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)


def _count(path: Path, unsteady: dict[str, str]) -> None:
    """Add one run to the file of unsteady tests."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"runs": 0, "unsteady": {}}
    known["runs"] += 1
    for nodeid in unsteady:
        known["unsteady"][nodeid] = known["unsteady"].get(nodeid, 0) + 1
    path.write_text(json.dumps(known, indent=1) + "\n")
