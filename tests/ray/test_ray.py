"""With Ray installed (`make test-ray`): every call, the ways to make a group, and failures."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = (ROOT / "docs" / "guide" / "ray.md").read_text()
HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_RAY = importlib.util.find_spec("ray") is not None
pytestmark = pytest.mark.slow


@pytest.fixture
def run():
    """`run(*command)`: what a program prints. Its Ray has a folder of its own, whose path is short: it has sockets."""
    if not HAS_RAY:
        pytest.skip("Ray is not installed: make test-ray")
    folder = tempfile.mkdtemp(dir="/tmp")
    own = {"RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}

    def start(*command: object) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, command)], env={**os.environ, **own}, cwd=folder, capture_output=True, text=True,
            timeout=10 * PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return "".join(line for line in done.stdout.splitlines(keepends=True) if "(raylet)" not in line)

    yield start
    shutil.rmtree(folder, ignore_errors=True)


def test_every_call_is_right_and_as_over_gloo(run):
    told = run(HERE / "programs" / "calls.py")
    assert told.split("\n", 1) == ["gloo beside it" if HAS_TORCH else "without gloo", "\n"]


def test_groups_are_made_in_every_way(run):
    assert run(HERE / "programs" / "groups.py") == ""


def test_failures_name_actors(run):
    lines = run(HERE / "programs" / "failures.py", *(["torch"] if HAS_TORCH else []))
    told = {what: outcomes for what, *outcomes in map(json.loads, lines.splitlines())}

    [(kind, text, _)] = told.pop("a short list")
    assert kind == "RayTaskError(ValueError)" and "one tensor for each of 3 ranks, got 1 tensors" in text

    for kind, text, rank in told.pop("dies while others wait") + told.pop("later"):
        assert (kind, rank) == ("RayTaskError(RankFailed)", 1)
        assert re.search(r"rank 1 .*\n  rank 1 is the actor Member 'member-1' \(\w+\) on node [\w.:]+$", text), text
        assert "shmcoll/ray" not in text  # lines of the program, and of Ray
    assert [kind for kind, *_ in told.pop("after its restart")] == ["nothing"] * 3

    for kind, text, _ in told.pop("another call"):
        assert kind == "RayTaskError(CollectiveMismatch)"
        assert "broadcast" in text and "rank 0 is the actor Member 'member-0'" in text

    (_, leader, _), (_, other, _) = told.pop("does not come")
    assert "ranks [1] of 2 have not joined group 'late' within the time given" in leader
    assert "ranks [0] of 2 have not joined group 'later' within the time given" in other

    for number, (kind, text, _) in enumerate(told.pop("elsewhere")):
        assert kind == "RayTaskError(NotImplementedError)"
        assert f"rank {1 - number} (the actor Member '{['there', 'here'][number]}'" in text and "STRICT_PACK" in text

    for kind, text, _ in told.pop("another backend", []):
        assert kind == "RayTaskError(TypeError)" and "the backend of group 'gloo' is GLOO" in text
    assert told == {}


def test_the_first_lines_of_the_guide(run, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PAGE.partition("```python\n")[2].partition("```")[0])
    assert run(program) == "[array([2., 2., 2.]), array([2., 2., 2.])]\n"


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_a_line_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", "import shmcoll.ray"], capture_output=True, text=True)
    assert "pip install 'shmcoll[ray]'" in done.stderr
