"""Makes the explorer importable, and puts its stand-ins in place for each test."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from explorer.stand_ins import exploring


@pytest.fixture(autouse=True)
def stand_ins() -> Iterator[None]:
    with exploring():
        yield
