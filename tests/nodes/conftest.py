"""What the cache lacks is compiled before the tests: within a job it would count against the limits of the test."""

import importlib.util

import pytest

from tests.support import prepare


def pytest_collection_finish(session: pytest.Session) -> None:
    here = any("tests/nodes/" in item.nodeid for item in session.items)
    if here and importlib.util.find_spec("mpi4py") and not session.config.option.collectonly:
        prepare.load(True)
