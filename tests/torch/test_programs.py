"""Whole programs over this backend, with the results that they have over gloo: the table in `programs/table.py`."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-torch")

from tests.torch.programs import hooks, sharded  # noqa: F401  # which add to the table
from tests.torch.programs.table import PROGRAMS, run_all


@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_every_program_has_the_results_of_gloo(ranks: Any, tmp_path: Path, n: int) -> None:
    expected, found = (ranks(n, run_all, tmp_path, backend, deadline=200.0) for backend in ("gloo", "shmcoll"))
    for rank in range(n):
        for name in PROGRAMS:
            assert found[rank][name] == expected[rank][name], f"{name} on rank {rank}:\n{found[rank][name]}"
            assert not isinstance(found[rank][name], str), f"{name} on rank {rank}:\n{found[rank][name]}"
