"""Several pytest processes run each test once between them."""

import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

CONFTEST = """
    import os, pathlib, pytest
    from tests.support.sharing import Sharing

    def pytest_configure(config):
        config.pluginmanager.register(Sharing(3, lambda: None))

    @pytest.fixture(autouse=True, scope="module")
    def one_file_at_a_time(request):
        global current
        current = request.path
        yield
        assert current == request.path

    def pytest_runtest_teardown(item):
        with open("ran", "a") as file:
            file.write(f"{item.name} {os.getpid()}\\n")
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run files of tests; return how often each test ran, in how many processes, the output and the exit code."""

    def run_files(files: dict[str, str]) -> tuple[Counter[str], int, str, int]:
        for name, text in {"conftest.py": CONFTEST, "pytest.ini": "[pytest]", **files}.items():
            (tmp_path / name).write_text(textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
        return Counter(name for name, _ in ran), len({pid for _, pid in ran}), done.stdout, done.returncode

    return run_files


def test_each_test_runs_once_and_output_is_kept_apart(run) -> None:
    many = """
        import os, pytest, time
        @pytest.mark.parametrize("i", range(80))
        def test(i, capfd):
            print("printed", i)
            os.system(f"echo by another {i}")
            time.sleep(0.01)
            assert capfd.readouterr().out == f"printed {i}\\nby another {i}\\n"
    """
    ended, processes, output, code = run(
        {"test_many.py": many, "test_two.py": "def test_a(): pass\ndef test_b(): pass"}
    )
    assert code == 0, output
    assert len(ended) == 82
    assert set(ended.values()) == {1}
    assert processes > 1
    assert sum(map(int, re.findall(r"(\d+) passed", output))) == 82


@pytest.mark.parametrize(
    ("line", "end", "shown"),
    [
        ("assert 'this' == 'that'", "1", "AssertionError: assert 'this' == 'that'"),
        ("os._exit(7)", "7 while it ran test_it.py::test_it", "test_it.py"),
        ("os.kill(os.getpid(), 11)", "signal 11 (SIGSEGV) while it ran test_it.py::test_it", "in test_it"),
    ],
    ids=["failure", "exit", "crash"],
)
def test_what_goes_wrong_fails_the_run_and_is_shown_last(run, line, end, shown) -> None:
    *_, output, code = run({"test_it.py": f"import os\ndef test_fine(): pass\ndef test_it(): {line}"})
    assert code == 1
    before, _, after = output.partition(f"== a process ended with {end}\n")
    assert before.count(shown) >= 2  # in its own output, and after all outputs
    assert "test_it" not in after
