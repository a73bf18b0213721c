"""The examples of docs/run.md, docs/point_to_point.md and docs/beyond.md do what their comments say."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOCUMENTS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("name", "examples"), [("run.md", 3), ("point_to_point.md", 4)])
def test_examples_run_as_written(scripts: Any, name: str, examples: int) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCUMENTS / name).read_text(), re.DOTALL)
    text = "\n".join(blocks)
    promised = re.findall(r"print\(.*?\) +# (.*)", text)
    assert len(promised) == examples
    assert scripts(text).splitlines() == promised


def test_what_goes_beyond_runs_on_two_ranks(tmp_path: Path) -> None:
    text = "\n".join(re.findall(r"```python\n(.*?)```", (DOCUMENTS / "beyond.md").read_text(), re.DOTALL))
    (tmp_path / "beyond.py").write_text(text)
    command = [sys.executable, "-m", "shmrun", "-n", "2", "--tag-output", str(tmp_path / "beyond.py")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    promised = re.findall(r"print\(.*\) +# (.*)", text)
    assert len(promised) == 14
    for rank in (0, 1):
        lines = [line.removeprefix(f"[{rank}] ") for line in told.stdout.splitlines() if line.startswith(f"[{rank}]")]
        assert lines == [_for(rank, words) for words in promised]


def _for(rank: int, promised: str) -> str:
    """What a comment promises one rank: 'rank 0: a; rank 1: b', or the same for both."""
    each = dict(re.findall(r"rank (\d): (.*?)(?:; |$)", promised))
    return each.get(str(rank), promised)
