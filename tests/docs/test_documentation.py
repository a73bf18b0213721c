"""The examples of the tutorial and the guides do what their comments say."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shmcoll
from tests.support.patience import PATIENCE

DOCUMENTS = Path(__file__).parents[2] / "docs"


def blocks(page: str) -> str:
    """The Python of a page as one script, without the blocks that begin with the name of a file."""
    found = re.findall(r"```python\n(.*?)```", (DOCUMENTS / page).read_text(), re.DOTALL)
    return "\n".join(block for block in found if not re.match(r"# \w+\.py\n", block))


@pytest.mark.parametrize(
    ("page", "examples"),
    [("tutorial.md", 5), ("guide/run.md", 6), ("guide/map.md", 8), ("guide/messages.md", 8), ("guide/failures.md", 1)],
)
def test_examples_run_as_written(scripts: Any, page: str, examples: int) -> None:
    text = blocks(page)
    promised = re.findall(r"print\(.*?\) +# (.*)", text)
    assert len(promised) == examples
    assert scripts(text).splitlines() == promised


@pytest.mark.parametrize(
    ("page", "examples"),
    [
        pytest.param("collectives", 13, marks=pytest.mark.slow),  # numba compiles a function of the page, as in "jit"
        ("asynchronous", 7),
        pytest.param("jit", 3, marks=pytest.mark.slow),
        ("objects", 8),
        ("shared-arrays", 4),
        ("groups", 8),
        ("from-mpi4py", 2),
    ],
)
def test_examples_run_on_two_ranks(tmp_path: Path, page: str, examples: int) -> None:
    text = blocks(f"guide/{page}.md")
    (tmp_path / "example.py").write_text(text)
    command = [sys.executable, "-m", "shmrun", "-n", "2", "--tag-output", str(tmp_path / "example.py")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    promised = re.findall(r"print\(.*\) +# (.*)", text)
    assert len(promised) == examples
    for rank in (0, 1):
        lines = [line.removeprefix(f"[{rank}] ") for line in told.stdout.splitlines() if line.startswith(f"[{rank}]")]
        assert lines == [_for(rank, words) for words in promised]


def _for(rank: int, promised: str) -> str:
    """What a comment promises one rank: 'rank 0: a; rank 1: b', or the same for both."""
    each = dict(re.findall(r"rank (\d): (.*?)(?:; |$)", promised))
    return each.get(str(rank), promised)


def test_what_the_page_for_those_who_leave_mpi4py_names_exists() -> None:
    rows = re.findall(r"^\| .* \| (.*) \|$", (DOCUMENTS / "guide" / "from-mpi4py.md").read_text(), re.MULTILINE)[2:]
    code = " ".join(text for row in rows for text in re.findall(r"`([^`]*)`", row))
    names = set(re.findall(r"\b[a-z_]\w*", re.sub(r'".*?"|\w+=\w*', "", code))) - {"comm", "shmcoll", "work", "x"}
    owners = (shmcoll, shmcoll.Communicator, shmcoll.Work, shmcoll.Grid, shmcoll.Graph)
    assert {name for name in names if not any(hasattr(owner, name) for owner in owners)} == set()
    assert {"all_reduce_object", "wait_some", "exchange", "views", "op", "node"} <= names
