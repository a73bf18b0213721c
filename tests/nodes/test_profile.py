"""What is recorded of a job over nodes, and by whose clock."""

import json

import numpy as np
import pytest

from shmcoll.nodes import clocks
from tests.nodes import started


@pytest.mark.any_mpi
@pytest.mark.parametrize("layout", ["2x2", "3 nodes"])
def test_calls_over_nodes_are_recorded(tmp_path, layout):
    file = tmp_path / "trace.json"
    done = started.run(tmp_path, str(started.ROOT / "tests/nodes/profile_job.py"), layout, str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(file.read_text())["otherData"]["clocks_differ_by_at_most_ns"] > 0


def test_the_difference_of_clocks_is_between_its_bounds():
    """Of calls that take from 20 us on, by clocks that differ by a second."""
    random = np.random.default_rng(5)
    for _ in range(100):
        came = random.integers(0, 1_000_000, (20, 5)) + 10_000_000 * np.arange(20)[:, None]
        left = came.max(axis=1, keepdims=True) + random.integers(20_000, 200_000, (20, 5))
        difference, wrong = clocks.between(came[:, :2] - 10**9, left[:, :2] - 10**9, came[:, 2:], left[:, 2:])
        assert abs(difference - 10**9) <= wrong
