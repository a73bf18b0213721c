"""Running shmrun for real: `shmrun(...)` runs it to its end, `shmrun.start(...)` leaves it running for the test."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DEADLINE = 60.0  # seconds; reached only when something hangs, or kernels are compiled by the very first test


class Started:
    """Processes that work in `folder`, with their output in pipes."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._running: list[subprocess.Popen[str]] = []

    def start_process(self, command: list[Any], env: dict[str, str], **options: Any) -> subprocess.Popen[str]:
        usual = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(list(map(str, command)), cwd=self.folder, env=env, text=True, **usual | options)
        self._running.append(process)
        return process

    def end(self) -> None:
        """Kill what still runs, which ends ranks that it has started, too."""
        for process in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()


class Shmrun(Started):
    """Started in `folder`, where `write` puts scripts."""

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
        environment = {**clean, "PYTHONUNBUFFERED": "", **(env or {})}
        return self.start_process([sys.executable, "-m", "shmrun", *arguments], environment, **options)

    def __call__(self, *arguments: Any, given: str | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        if given is not None:
            options["stdin"] = subprocess.PIPE
        return self.finish(self.start(*arguments, **options), given)

    def finish(self, job: subprocess.Popen[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
        out, err = job.communicate(given, timeout=DEADLINE)
        return subprocess.CompletedProcess(job.args, job.returncode, out, err)


@pytest.fixture
def shmrun(tmp_path: Path) -> Iterator[Shmrun]:
    started = Shmrun(tmp_path)
    yield started
    started.end()


class Scripts(Started):
    """`scripts.start(text)` runs a Python script with its output in a pipe; none outlives the test."""

    def start(self, text: str, **environment: str) -> subprocess.Popen[str]:
        path = self.folder / f"script{len(self._running)}.py"
        path.write_text(textwrap.dedent(text))
        return self.start_process([sys.executable, path], {**os.environ, **environment})

    def __call__(self, text: str, **environment: str) -> str:
        """What the script prints; it has to succeed."""
        script = self.start(text, **environment)
        out, err = script.communicate(timeout=DEADLINE)
        assert script.returncode == 0, err
        return out
