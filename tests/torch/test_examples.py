"""The examples for torch, as they are, in ranks of the test process; `test_launchers.py` has their launchers."""

import contextlib
import io
import re
import runpy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

import torch.distributed as dist

EXAMPLES = Path(__file__).parents[2] / "examples"

#: what rank 0 prints, and the least share of digits that are right, if it prints one
PRINTED = {
    "torch_ddp.py": (r"2 ranks: (0\.\d+) of 297 test digits are right", 0.9),
    "torch_fsdp.py": (r"2 ranks, 2405 of 4810 parameters on rank 0: (0\.\d+) of the digits are right", 0.9),
    "torch_tensor_parallel.py": (r"2 ranks, 2 heads on each: same logits: True", None),
    "torch_expert_parallel.py": (r"2 ranks, 4 experts, 200 tokens: same results: True", None),
}


def check(lines: list[str]) -> None:
    assert len(lines) == len(PRINTED), lines
    for line, (pattern, least) in zip(lines, PRINTED.values(), strict=True):
        found = re.fullmatch(pattern, line)
        assert found, line
        assert least is None or float(found[1]) >= least, line


def run_all(comm: Any, folder: Path) -> list[str]:
    """Run the examples, whose ranks meet through a file and not through a port."""
    original, printed = dist.init_process_group, io.StringIO()
    with contextlib.redirect_stdout(printed):
        for name in PRINTED:
            store = dist.FileStore(str(folder / name), comm.size)
            dist.init_process_group = partial(original, store=store, rank=comm.rank, world_size=comm.size)
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return printed.getvalue().splitlines()


def test_they_print_what_they_should(ranks: Any, tmp_path: Path) -> None:
    first, second = ranks(2, run_all, tmp_path)
    check(first)
    assert second == []
