"""What the launcher knows of each rank, and what it can do to one: note its end, read its report, send it a signal."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from shmrun.start import log_files
from shmrun.start.exception_report import Report, parse
from shmrun.start.spawn import Child
from shmrun.watch.output import Stream


@dataclass
class Rank:
    """One rank. `status`: its exit code, or minus the signal that killed it; None while it runs."""

    child: Child
    streams: list[Stream]
    log: Path | None = None
    status: int | None = None
    ended: int = 0  # CLOCK_MONOTONIC, ns
    ended_by_us: int = 0  # the signal by which shmrun had to end it
    peak: int = 0  # bytes of memory at most; known when it has been reaped
    reporting: bool = True  # until the report pipe is at its end: an executed program has closed it
    _message: bytes = b""

    def __post_init__(self) -> None:
        os.set_blocking(self.child.report, False)

    @property
    def number(self) -> int:
        return self.child.rank

    @property
    def report(self) -> Report | None:
        return parse(self._message)

    def note_end(self) -> bool:
        """Whether the rank has ended; then its last words are read and its status is kept. It is not reaped."""
        result = os.waitid(os.P_PIDFD, self.child.pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if result is None:
            return False
        self.read_report()
        self.ended = time.monotonic_ns()
        self.status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        return True

    def read_report(self) -> None:
        """Read what there is of the report, without waiting."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.child.report, 1 << 16):
                self._message += data
            self.reporting = False

    def reap(self) -> None:
        """After its end, when all its output has been read. Its traceback comes last in its log, as on a screen."""
        _, _, usage = os.wait4(self.child.pid, 0)
        self.peak = usage.ru_maxrss << 10
        if self.log and self.report:
            with contextlib.suppress(OSError), open(log_files.append(self.log), "a") as f:
                f.write(self.report.text.rstrip() + "\n")

    def send(self, signum: signal.Signals) -> None:
        """Send a signal to the rank and all in its process group, dead or alive."""
        try:
            os.killpg(self.child.pid, signum)
        except ProcessLookupError:
            with contextlib.suppress(OSError):  # it has no group of its own yet
                os.kill(self.child.pid, signum)
        except PermissionError:
            pass  # it has changed its user

    def failure(self) -> str:
        """How the rank failed, in a sentence that its peers quote."""
        status = self.status or 0
        if self.report and status >= 0:
            return f"rank {self.number} raised {self.report.line}"
        return f"rank {self.number} {describe(status)}"


def describe(status: int) -> str:
    """'exited with code 3' or 'was killed by signal 9 (SIGKILL)'."""
    if status >= 0:
        return f"exited with code {status}"
    return f"was killed by signal {-status} ({signal_name(-status)})"


def signal_name(number: int) -> str:
    """'SIGKILL', or 'real-time' for those without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "real-time"
