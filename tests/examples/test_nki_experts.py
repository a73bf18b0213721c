"""The worked example of the guide "Coming from NKI" equals a loop over tokens, and runs unchanged under `--nki`."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shmcoll.nki.collectives import ReplicaGroup
from tests.support.patience import PATIENCE

SCRIPT = Path(__file__).parents[2] / "examples" / "nki_experts.py"


@pytest.mark.parametrize(("n", "lists"), [(1, [[0]]), (4, [[2, 0], [1, 3]])])
def test_a_step_equals_a_loop_over_tokens(load, ranks, n, lists):
    example = load("nki_experts")
    tokens = [np.random.default_rng(rank).normal(size=(5, example.WIDTH)).astype(np.float32) for rank in range(n)]

    def run(comm):
        mine = next(ranks for ranks in lists if comm.rank in ranks)
        return example.step(tokens[comm.rank], len(mine), ReplicaGroup(lists), mine.index(comm.rank))

    results = ranks(n, run)
    for mine, (result, _) in zip(tokens, results, strict=True):
        for token, expert, got in zip(mine, example.route(mine, len(lists[0])), result, strict=True):
            np.testing.assert_allclose(got, example.expert(expert, token[None])[0], rtol=1e-5, atol=1e-5)
    assert sum(came for _, came in results) == 5 * n


def test_it_runs_where_nki_is_imported(tmp_path):
    program = SCRIPT.read_text().replace("from shmcoll.nki import", "from nki import")
    (tmp_path / "kernel.py").write_text(program)
    command = [sys.executable, "-m", "shmrun", "-n", "4", "--nki", str(tmp_path / "kernel.py"), "100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    line = re.compile(r"expert (\d): (\d+) of 400 tokens; off by (\S+) at most")
    found = [match.groups() for match in map(line.fullmatch, done.stdout.splitlines()) if match]
    assert sorted(number for number, _, _ in found) == ["0", "1"]
    assert sum(int(tokens) for _, tokens, _ in found) == 400
    assert all(float(off) < 1e-4 for _, _, off in found)
