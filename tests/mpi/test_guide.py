"""The example of the guide on programs of mpi4py prints what the guide says."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mpi4py")

PAGE = (Path(__file__).parents[2] / "docs/guide/mpi4py.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_says(shmrun: Any) -> None:
    (program,) = re.findall(r"```python\n(# pi\.py\n.*?)```", PAGE, re.DOTALL)
    ((options, printed),) = re.findall(r"```\n\$ shmrun (.*) pi\.py\n(.*?)```", PAGE, re.DOTALL)
    (shmrun.folder / "pi.py").write_text(program, encoding="utf-8")
    done = shmrun(*options.split(), "pi.py")
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
