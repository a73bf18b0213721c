"""`shmbench` over nodes: as a rank of mpiexec, and `shmbench compare --nodes`."""

import json
import subprocess
import sys

import pytest
from shmbench.commands.nodes_compare import find_mpich

from tests.nodes import started

NAMES = ["barrier", "all_reduce", "scatter", "all_to_all_v", "collective_permute"]


def test_a_rank_of_mpiexec_measures_over_the_nodes(tmp_path):
    out = tmp_path / "table.json"
    script = str(started.ROOT / "bench/shmbench/__main__.py")
    asked = ["all_reduce", "--sizes", "8,100K", "--rounds", "1", "--iters", "2", "-J", str(out)]
    done = started.run(tmp_path, script, "2+1", *asked, PYTHONPATH=f"{started.ROOT}/bench:{started.ROOT}/launcher")
    assert done.returncode == 0, done.stderr
    assert "3 ranks on 2 nodes" in done.stdout
    document = json.loads(out.read_text())
    assert document["ranks"] == 3
    assert [row["size"] for row in document["rows"]] == [8, 100 << 10]
    assert document["wrong"] == 0


@pytest.mark.slow
def test_compare_measures_flat_mpi_and_shmcoll_on_the_same_ranks(tmp_path):
    started.mpi_or_skip()
    if find_mpich() is None:
        pytest.skip("it needs MPICH, which simulates the nodes; make test-nodes installs it")
    out = tmp_path / "found.json"
    asked = ["--nodes", "2", "-n", "4", "--sizes", "64", "--rounds", "1", "-J", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "shmbench", "compare", *NAMES, *asked],
        capture_output=True,
        text=True,
        timeout=started.DEADLINE,
        env=started.environment(PYTHONPATH=f"{started.ROOT}/bench:{started.ROOT}/launcher:{started.ROOT}"),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = json.loads(out.read_text())["lines"]
    assert [one["collective"] for one in lines] == NAMES
    assert all(one["wrong"] == 0 and len(one["flat"]) == len(one["shmcoll"]) == 1 for one in lines)
