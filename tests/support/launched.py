"""Running shmrun for real: `shmrun(...)` runs it to its end, `shmrun.start(...)` leaves it running for the test."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

DEADLINE = 60.0  # seconds; reached only when something hangs, or kernels are compiled by the very first test


class Shmrun:
    """Started in `folder`, where `write` puts scripts."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._running: list[subprocess.Popen[str]] = []

    def write(self, text: str, name: str = "job.py") -> str:
        """Write a script; returns its name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        path.chmod(0o755)
        return name

    def start(self, *arguments: Any, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        """`shmrun arguments`. The environment loses what a surrounding job may have left in it."""
        clean = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "MASTER_ADDR", "MASTER_PORT")}
        job = subprocess.Popen(
            [sys.executable, "-m", "shmrun", *map(str, arguments)],
            cwd=self.folder,
            env={**clean, "PYTHONUNBUFFERED": "", **(env or {})},
            text=True,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            **options,
        )
        self._running.append(job)
        return job

    def __call__(self, *arguments: Any, given: str | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        if given is not None:
            options["stdin"] = subprocess.PIPE
        return self.finish(self.start(*arguments, **options), given)

    def finish(self, job: subprocess.Popen[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
        out, err = job.communicate(given, timeout=DEADLINE)
        return subprocess.CompletedProcess(job.args, job.returncode, out, err)

    def end(self) -> None:
        for job in self._running:
            if job.poll() is None:
                job.send_signal(signal.SIGKILL)  # which ends the ranks, too
                job.wait()
            for pipe in (job.stdin, job.stdout, job.stderr):
                if pipe:
                    pipe.close()


@pytest.fixture
def shmrun(tmp_path: Path) -> Iterator[Shmrun]:
    started = Shmrun(tmp_path)
    yield started
    started.end()


@pytest.fixture
def until() -> Callable[..., Any]:
    """`until(condition)`: its first true value; the test fails when there is none in time."""

    def wait(condition: Callable[[], Any]) -> Any:
        end = time.monotonic() + DEADLINE
        while not (value := condition()):
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.002)
        return value

    return wait
