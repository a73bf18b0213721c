"""`pytest --processes N`: N processes run the tests between them, because many tests wait more than they compute.

The process that has collected the tests forks the others, so that the tests are collected and the routines loaded once.
It runs no test itself: it shows the output of the first process as it comes, then that of the others, and what failed
last: the failures of each process, and of one that died the stacks and the test that it ran.

All processes cut the tests into the same shares, and each takes the next share that nobody has taken. A file counts the
shares that are taken: a process appends one byte, and the position behind its byte is the number of its share, counted
from 1. The kernel appends the bytes one after another, so each share has exactly one taker. Nobody waits for a share. A
process that dies takes its share with it, and its status fails the run.
"""

import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

PR_SET_PDEATHSIG = 1
LONGEST = 70  # tests of a file that one process runs: it sets up the fixtures of the file, and keeps what it computes
PART = 10  # tests of a longer file
NOTHING_RUN = int(pytest.ExitCode.NO_TESTS_COLLECTED)


def shares(tests: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Cut tests into shares of one file. Parts of long files come last: these are short and many, so that all processes
    end together."""
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

    def __init__(self, processes: int, begin: Callable[[], None]) -> None:
        """begin: what each process does first."""
        self._processes = processes
        self._begin = begin

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Do what pytest's own loop does, in forks; it ends in each of them and in this process."""
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest's loop reports errors of collecting
        folder = Path(tempfile.mkdtemp())
        outputs = [folder / f"output{number}" for number in range(self._processes)]
        running: dict[int, Path] = {}
        for output in outputs:
            if (pid := _fork(session.config, output)) == 0:
                self._begin()
                _run(session, folder / "taken", _current(output))
                return True
            running[pid] = output
        try:
            session.testsfailed = _wait(running, outputs)
        finally:
            for pid in running:  # this process was interrupted
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)
            shutil.rmtree(folder)
        return True


def _fork(config: pytest.Config, output: Path) -> int:
    """Fork a process that writes what it prints into a file, and ends with this one; return 0 in it."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    capture = config.pluginmanager.getplugin("capturemanager")
    parent = os.getpid()
    if pid := os.fork():
        return pid
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    capture.stop_global_capturing()  # its files are those of the other forks, too
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        os.dup2(file.fileno(), config.stash[fault_handler_stderr_fd_key])  # for the stacks of a crash or a stuck test
    capture.start_global_capturing()
    capture.suspend_global_capture()
    config.pluginmanager.getplugin("terminalreporter")._show_progress_info = False  # the others run tests, too
    return 0


def _current(output: Path) -> Path:
    """Return the file that names the test which a process runs."""
    return output.with_suffix(".current")


def _run(session: pytest.Session, taken: Path, current: Path) -> None:
    for test, following in pairwise(chain(_mine(session.items, taken), [None])):
        assert test is not None
        current.write_text(test.nodeid)
        test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    current.unlink(missing_ok=True)


def _mine(tests: Sequence[pytest.Item], taken: Path) -> Iterator[pytest.Item]:
    """Take shares until there are none."""
    all_shares = shares(tests)
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


def _wait(running: dict[int, Path], outputs: list[Path]) -> int:
    """Wait for processes, take them from `running`, and print what they print; return how many of them failed."""
    shown, failed = 0, {}
    while running:
        time.sleep(0.2)
        for pid in list(running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended and (code := os.waitstatus_to_exitcode(status)) not in (0, NOTHING_RUN):
                failed[running[pid]] = code
            if ended:
                del running[pid]
        shown += _print(outputs[0], shown)
    for output in outputs[1:]:
        _print(output)
    for output, code in failed.items():
        lines = _failures(output.read_text(errors="replace").splitlines(keepends=True))
        died = f" while it ran {_current(output).read_text()}" if _current(output).exists() else ""
        os.write(1, f"\n{lines}\n== a process ended with {_meaning(code)}{died}\n".encode())
    return len(failed)


def _meaning(code: int) -> str:
    return str(code) if code >= 0 else f"signal {-code} ({signal.Signals(-code).name})"


def _print(path: Path, begin: int = 0) -> int:
    """Print a file from a position on; return how many bytes that were."""
    with path.open("rb") as file:
        file.seek(begin)
        data = file.read()
    sys.stdout.flush()
    with open(1, "wb", closefd=False) as stdout:
        stdout.write(data)
    return len(data)


def _failures(lines: list[str]) -> str:
    """From the first failure on; without one, the end of the output."""
    begin = next(
        (i for i, line in enumerate(lines) if line.startswith("===") and ("FAILURES" in line or "ERRORS" in line)), -40
    )
    return "".join(lines[begin:][:400])
