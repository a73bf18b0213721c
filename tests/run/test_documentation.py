"""The examples of docs/run.md do what their comments say."""

import re
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "run.md"


def test_examples_run_as_written(scripts: Any) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    text = "\n".join(blocks)
    promised = re.findall(r"print\(.*?\) +# (.*)", text)
    assert len(promised) == 3
    assert scripts(text).splitlines() == promised
