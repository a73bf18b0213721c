"""For tests of `shmcoll.run`: its server ends with them; scripts that call it, to be interrupted and killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import shmcoll
from shmcoll.runner import api, client
from tests.support import leaks
from tests.support.launched import Scripts, shmrun

__all__ = ["shmrun"]


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


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    started = Scripts(tmp_path)
    yield started
    started.end()
