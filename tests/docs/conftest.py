"""For tests of examples in the documentation: they run as scripts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.launched import Scripts


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    started = Scripts(tmp_path)
    yield started
    started.end()
