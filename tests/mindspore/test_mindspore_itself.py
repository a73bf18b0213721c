"""With MindSpore installed (`make test-mindspore`): programs, gradients, the same calls on both, and Graph mode.

MindSpore runs in programs of its own, never in the process of the tests: it has threads, and ranks are forks.
"""

import importlib.util
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.frontends.test_document_examples import EXAMPLES

HERE = Path(__file__).parent
FRONTENDS = HERE.parent / "frontends" / "programs"
#: in the order of `together.py`: the first one calls `set_device`, which MindSpore takes only before it computes
PROGRAMS = [*sorted(FRONTENDS.glob("mindspore_*.py"), reverse=True), *sorted(HERE.glob("programs/*.py"))]
GUIDE = HERE.parents[1] / "docs" / "guide" / "mindspore.md"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="MindSpore is not installed"),
]

#: calls that MindSpore 2.10 answers in another way, and why ours does not
EXPLAINED = {
    "ops.AlltoAll(2, 0, 0)(Tensor([1.0, 2.0, 3.0]))": "its text lacks a quote and shows {x_shape[0]} for a number",
    "ops.Broadcast(0)((x, x))": "on a CPU it sends the first tensor only; the second result has not been written",
}


@pytest.fixture
def run(tmp_path):
    """`run(*command)`: the lines that a program prints; it works in a folder of the test."""

    def start(*command: object) -> list[str]:
        done = subprocess.run(
            [sys.executable, *map(str, command)], cwd=tmp_path, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return start


@pytest.fixture
def msrun(run, tmp_path):
    """`msrun(program)`: the lines that two ranks print with MindSpore's own communication."""

    def start(program: Path) -> list[str]:
        run(
            "-m", "mindspore.parallel.cluster.run", "--worker_num", 2, "--local_worker_num", 2, "--master_port", 18118,
            "--join", "True", "--log_dir", "logs", program,
        )  # fmt: skip
        return [line for log in tmp_path.glob("logs/worker_*.log") for line in log.read_text().splitlines()]

    return start


def test_calls_are_answered_as_recorded(run):
    assert run(HERE / "calls.py") == []


def test_bad_input_of_mindspore_is_told(run):
    assert run("-m", "shmrun", "--mindspore", "-n", 2, HERE / "bad_input.py") == []


def test_two_backends_of_mindspore(run, tmp_path):
    (tmp_path / "two.py").write_text(
        "import mindspore.communication as _, numpy as np\n"
        "from shmcoll.mindspore import ops\n"
        "try: ops.AllReduce()(np.ones(2))\n"
        "except RuntimeError as error: print(error)\n"
    )
    told = " ".join(run("-m", "shmrun", "-n", 1, "two.py"))
    assert "start it by shmrun --mindspore, or import `init` from shmcoll.mindspore.communication." in told


def test_the_guide_explains_each_name_of_mindspore_that_differs(run):
    """Its table has a pattern for each line, and no other."""
    section = GUIDE.read_text().partition("### What differs")[2].partition("\n## ")[0]
    patterns = re.findall(r"^\| `(.*?)` \|", section, re.MULTILINE)
    told = run(HERE / "names.py")
    assert [line for line in told if not any(fnmatchcase(line, one) for one in patterns)] == []
    assert [one for one in patterns if not any(fnmatchcase(line, one) for line in told)] == []


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients(run, n):
    assert sorted(run("-m", "shmrun", "-n", n, HERE / "gradients.py")) == [f"rank {r} is done" for r in range(n)]


@pytest.mark.parametrize("n", [2, 4])
def test_programs_run_unchanged_together(run, n):
    told = run("-m", "shmrun", "--mindspore", "-n", n, HERE / "together.py", *PROGRAMS)
    assert sorted(told) == [f"rank {rank}: right" for rank in range(n) for _ in PROGRAMS]


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_unchanged(run, path, n):
    told = run("-m", "shmrun", "--mindspore", "-n", n, path)
    assert sorted(told) == [f"rank {rank}: right" for rank in range(n)]


@pytest.mark.parametrize("name", ["AlltoAll", "AllReduce", "gather"])
def test_an_example_of_the_documents(run, tmp_path, name):
    """AlltoAll chooses Graph mode and a device."""
    text, printed = EXAMPLES[name]
    (tmp_path / "example.py").write_text("".join(f"{line[4:]}\n" for line in text.strip().splitlines()))
    told = run("-m", "shmrun", "--mindspore", "-l", "-n", len(printed), "example.py")
    assert printed == [
        "\n".join(line[4:] for line in told if line.startswith(f"[{rank}] ")) for rank in range(len(printed))
    ]


def test_data_parallel_runs_on_mindspore_alone_too(msrun):
    told = msrun(HERE / "programs" / "data_parallel.py")
    assert sorted(line for line in told if line.startswith("rank ")) == ["rank 0: right", "rank 1: right"]


def test_collectives_are_those_of_mindspore(run, msrun):
    """The same program, started by each launcher. It ends with an error if a call names what it does not know.

    MindSpore with our communication prints what our package prints."""
    ours = run("-m", "shmrun", "-n", 2, HERE / "collectives.py", "ours")
    given = run("-m", "shmrun", "--mindspore", "-n", 2, HERE / "collectives.py")
    assert sorted(given) == sorted(ours)
    theirs = [line for line in msrun(HERE / "collectives.py") if line.startswith(("0|", "1|"))]
    assert len(ours) == len(theirs) > 30
    differ = {line.split("|")[1] for line in set(ours) ^ set(theirs)}
    assert differ <= set(EXPLAINED), sorted(set(ours) ^ set(theirs))
