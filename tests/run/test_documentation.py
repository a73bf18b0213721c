"""The examples of docs/run.md and docs/point_to_point.md do what their comments say."""

import re
from pathlib import Path
from typing import Any

import pytest

DOCUMENTS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["run.md", "point_to_point.md"])
def test_examples_run_as_written(scripts: Any, name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCUMENTS / name).read_text(), re.DOTALL)
    text = "\n".join(blocks)
    promised = re.findall(r"print\(.*?\) +# (.*)", text)
    assert len(promised) == 3
    assert scripts(text).splitlines() == promised
