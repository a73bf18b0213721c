"""The page about MindSpore names every public name, and its example does what its comments say."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from shmcoll import mindspore
from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.ops import communication as ops_communication
from tests.support.patience import PATIENCE

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "mindspore.md").read_text()


def listed(section: str) -> dict[str, str]:
    """The names in the table of a section, and whether each is here."""
    text = PAGE.partition(f"### `mindspore.{section}`\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| (`.*?|all names.*?) \| (.*?) \| (.*?) ?\|$", text, re.MULTILINE)
    return {name: here for names, here, _ in rows for name in re.findall(r"\w[\w.]*(?=`)", names)}


@pytest.mark.parametrize(
    ("section", "module"),
    [
        ("communication", mindspore.communication),
        ("mint.distributed", mindspore.mint.distributed),
        ("communication.comm_func", comm_func),
        ("ops", mindspore.ops),
    ],
)
def test_every_public_name_is_in_its_table(section: str, module: ModuleType) -> None:
    names = {name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)}
    assert set(listed(section)) == names
    assert set(listed(section).values()) <= {"yes", "partly", "no"}


def test_ops_communication_adds_to_mint() -> None:
    added = set(ops_communication.__all__) - set(mindspore.mint.distributed.__all__)
    assert set(listed("ops.communication")) - {"mint.distributed"} == added


def test_the_example_runs_on_two_ranks(tmp_path: Path) -> None:
    text = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    (tmp_path / "example.py").write_text(text)
    command = [sys.executable, "-m", "shmrun", "-n", "2", "--tag-output", str(tmp_path / "example.py")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert sorted(told.stdout.splitlines()) == ["[0] -1", "[0] [3.] [0, 1]", "[1] 0", "[1] [3.] [0, 1]"]
    assert re.findall(r"print\(.*\) +# (.*)", text) == ["[3.] [0, 1]", "rank 0: -1; rank 1: 0"]
