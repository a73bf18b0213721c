"""The first example of the page on pytest fails as the page shows."""

import re
from pathlib import Path

import pytest

from tests.support.pytest_suites import run

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "pytest.md").read_text()


@pytest.mark.slow
def test_the_example_fails_as_shown(tmp_path: Path) -> None:
    source, shown = re.findall(r"```(?:python)?\n(.*?)```", PAGE, re.DOTALL)[:2]
    told = run(tmp_path, source, "-v")
    lines = [line.rstrip() for line in shown.splitlines() if line and not line.startswith(("$", "---------"))]
    expected = [line.replace("test_sum.py", "test_suite.py") for line in lines]
    expected = [
        re.sub(r":13:", rf":{source.splitlines().index('    assert comm.rank < 2') + 1}:", one) for one in expected
    ]
    assert [line for line in expected if line not in re.sub(r" +\[ *\d+%\]", "", told.output)] == []


def test_every_setting_is_on_the_page() -> None:
    plugin = (Path(__file__).parents[2] / "shmcoll" / "pytest_plugin" / "__init__.py").read_text()
    names = re.findall(r'add(?:ini|option)\(\s*"([^"]+)"', plugin)
    assert len(names) == 5 and [name for name in names if name not in PAGE] == []
