"""For tests of `shmcoll.run`: its server ends with them; scripts that call it, to be interrupted and killed."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import leaks
import pytest
from launched import DEADLINE, Started

import shmcoll
from shmcoll.runner import api, client


@pytest.fixture(autouse=True, scope="package")
def no_server_stays() -> Iterator[None]:
    before = leaks.snapshot()
    yield
    api.shutdown()
    assert leaks.left_since(before) == []


@pytest.fixture
def server() -> None:
    """It runs already, for to start it takes as long as most tests."""
    if client._server is None:
        shmcoll.run(int, 1)


@pytest.fixture(autouse=True)
def no_leaks(server: None, no_leaks: None) -> Iterator[None]:
    """A test that ends the server may start others."""
    before = client._server
    yield
    if client._server is not before:
        api.shutdown()


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


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    started = Scripts(tmp_path)
    yield started
    started.end()
