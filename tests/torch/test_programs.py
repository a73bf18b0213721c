"""Whole programs over this backend, with the results that they have over gloo: the table in `programs/table.py`."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-torch")

from tests.torch.programs import hooks, sharded, tensors  # noqa: F401  # which add to the table
from tests.torch.programs.table import PROGRAMS, are_alike, run_all


@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_every_program_has_the_results_of_gloo(ranks: Any, tmp_path: Path, n: int) -> None:
    """Bit for bit with two ranks: a sum of two is the same in any order."""
    expected, found = (ranks(n, run_all, tmp_path, backend, deadline=200.0) for backend in ("gloo", "shmcoll"))
    for rank in range(n):
        for name in PROGRAMS:
            mine, gloos = found[rank][name], expected[rank][name]
            assert not isinstance(mine, str), f"{name} on rank {rank}:\n{mine}"
            assert are_alike(mine, gloos, 0.0 if n == 2 else 1e-3), f"{name} on rank {rank}:\n{mine}\ngloo:\n{gloos}"
