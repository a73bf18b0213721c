"""A rank on the side of the launcher: its process, and the pipes through which it reports and prints."""

import contextlib
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from shmcoll.engine.system.text import to_bytes
from shmcoll.startup.exits import RankProcess
from shmrun.start import log_files
from shmrun.start.exception_report import Report, parse
from shmrun.start.output_channels import Channel
from shmrun.start.terminal import Terminal


@dataclass
class Rank(RankProcess):
    """One rank. output: the channels through which it prints. log: its log file, if it has one. terminal: that of the
    job, if this is rank 0."""

    report_fd: int
    output: tuple[Channel, ...]
    log: Path | None
    terminal: Terminal | None = None
    is_reporting: bool = field(default=True, init=False)  # until the report pipe ends: an executed program closes it
    peak: int = field(default=0, init=False)  # most bytes of memory; known when it has been reaped
    processor_time: float = field(default=0.0, init=False)  # seconds; known then, too
    _message: bytes = field(default=b"", init=False)
    _report: Report | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        os.set_blocking(self.report_fd, False)

    @property
    def raised(self) -> Report | None:
        return self._report

    def send(self, signum: int) -> None:
        if self.terminal and signum != signal.SIGCONT:
            self.terminal.take_back()  # otherwise the launcher is in its group
        super().send(signum)

    def read_report(self) -> None:
        """Read the part of the report that has arrived, without waiting. When the rank has ended, no more arrives."""
        self.is_reporting = self.status is None
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.report_fd, 1 << 16):
                self._message += data
            self.is_reporting = False
        self._report = parse(self._message)

    def reap(self) -> None:
        """Reap the process after its end, when all its output has been read. Its traceback comes last in its log, as on
        a screen."""
        _, _, usage = os.wait4(self.pid, 0)
        self.peak = usage.ru_maxrss << 10
        self.processor_time = usage.ru_utime + usage.ru_stime
        if self.log and self._report:
            with contextlib.suppress(OSError), open(log_files.append(self.log), "ab") as f:
                f.write(to_bytes(self._report.text.rstrip() + "\n"))
