"""For tests of `shmcoll.run`: its server ends with each test; scripts that call it, to be interrupted and killed."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmcoll import runner

DEADLINE = 60.0  # seconds; reached only when something hangs, or routines are compiled by the very first test


@pytest.fixture(autouse=True)
def no_server_stays(no_leaks: None) -> Iterator[None]:
    yield
    runner.shutdown()


class Scripts:
    """`scripts.start(text)` runs a Python script with its output in a pipe; none outlives the test."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._running: list[subprocess.Popen[str]] = []

    def start(self, text: str, **environment: str) -> subprocess.Popen[str]:
        path = self.folder / f"script{len(self._running)}.py"
        path.write_text(textwrap.dedent(text))
        script = subprocess.Popen(
            [sys.executable, path],
            cwd=self.folder,
            env={**os.environ, **environment},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._running.append(script)
        return script

    def __call__(self, text: str, **environment: str) -> str:
        """What the script prints; it has to succeed."""
        script = self.start(text, **environment)
        out, err = script.communicate(timeout=DEADLINE)
        assert script.returncode == 0, err
        return out

    def end(self) -> None:
        for script in self._running:
            if script.poll() is None:
                script.send_signal(signal.SIGKILL)
                script.wait()
            for pipe in (script.stdout, script.stderr):
                if pipe:
                    pipe.close()


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    started = Scripts(tmp_path)
    yield started
    started.end()
