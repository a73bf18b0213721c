"""Every operation of the torch backend against torch in one process: the table in `cases.py`, one job for all."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-torch")

from tests.torch import cases, feature_cases  # noqa: F401  # which adds to the table


@pytest.mark.parametrize("n", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)])
def test_every_case_is_that_of_the_model(ranks: Any, tmp_path: Path, n: int) -> None:
    for rank, failed in enumerate(ranks(n, cases.run_all, tmp_path / "store", deadline=120.0)):
        assert not failed, f"rank {rank}:\n" + "\n".join(f"{name}: {text}" for name, text in failed.items())
