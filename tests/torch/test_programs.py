"""Whole programs over this backend, with the results that they have over gloo: the table in `programs/table.py`."""

import importlib
import pkgutil
import re
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-torch")

from tests.torch import programs
from tests.torch.programs.table import LIBRARIES, PROGRAMS, SLOW, are_alike, load, run_all

with warnings.catch_warnings(action="ignore"):  # torch deprecates what it uses itself
    for module in pkgutil.iter_modules(programs.__path__):  # each adds to the table
        importlib.import_module(f"{programs.__name__}.{module.name}")

SETS = {
    "quick": [name for name in PROGRAMS if name not in SLOW],
    "slow": sorted(SLOW - set(LIBRARIES)),  # for the compiler or new processes; the number of ranks does not matter
    "libraries": [name for name in LIBRARIES if name in PROGRAMS],
}
SECONDS = 140.0  # for both backends: after 150 s pytest ends, and shows nothing of the ranks
RUNS = [(2, "quick"), (2, "slow"), (2, "libraries"), (4, "quick"), (4, "libraries")]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "names"), RUNS)
def test_every_program_has_the_results_of_gloo(ranks: Any, tmp_path: Path, n: int, names: str) -> None:
    """Bit for bit with two ranks: a sum of two is the same in any order."""
    if not SETS[names]:
        pytest.skip("the libraries are not installed")
    load(SETS[names])
    end = time.monotonic() + SECONDS
    expected, found = (
        ranks(n, run_all, tmp_path, backend, SETS[names], deadline=end - time.monotonic())
        for backend in ("gloo", "shmcoll")
    )
    for rank in range(n):
        for name in SETS[names]:
            mine, gloos = found[rank][name], expected[rank][name]
            assert not isinstance(mine, str), f"{name} on rank {rank}:\n{mine}"
            assert are_alike(mine, gloos, 0.0 if n == 2 else 1e-3), f"{name} on rank {rank}:\n{mine}\ngloo:\n{gloos}"


def test_the_guide_names_programs_that_run() -> None:
    guide = (Path(__file__).parents[2] / "docs/guide/torch.md").read_text()
    section = guide.partition("## Whole programs")[2].partition("\n## ")[0]
    rows = [row.split("|") for row in section.splitlines() if row.startswith("| ")]
    named = [name for row in rows[1:] for name in re.findall("`(.*?)`", row[2])]
    assert named and set(named) <= set(PROGRAMS) | set(LIBRARIES)
