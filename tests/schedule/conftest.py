"""Puts the stand-ins of the explorer in place for each test."""

from collections.abc import Iterator

import pytest

from tests.schedule.explorer.stand_ins import exploring
from tests.schedule.explorer.stand_ins_over_nodes import over_nodes


@pytest.fixture(autouse=True)
def stand_ins() -> Iterator[None]:
    with exploring(), over_nodes():
        yield
