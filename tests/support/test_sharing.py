"""Several pytest processes run each test once between them."""

import json
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
        config.pluginmanager.register(Sharing(3, lambda: None, pathlib.Path("single").exists()))

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

    def run_files(files: dict[str, str], *options: str) -> tuple[Counter[str], int, str, int]:
        for name, text in {"conftest.py": CONFTEST, "pytest.ini": "[pytest]\nmarkers = timing", **files}.items():
            (tmp_path / name).write_text(textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
        return Counter(name for name, _ in ran), len({pid for _, pid in ran}), done.stdout, done.returncode

    run_files.folder = tmp_path  # type: ignore[attr-defined]
    return run_files


def test_single_tests_of_a_file_run_side_by_side(run):
    text = """
        import os, pathlib, time, pytest

        @pytest.mark.parametrize("own", range(6))  # each process takes the next test before it runs one
        def test_meets_tests_of_the_other_processes(own):
            pathlib.Path(f"process{os.getpid()}").touch()
            while len(list(pathlib.Path().glob("process*"))) < 3:
                time.sleep(0.01)
    """
    conftest = CONFTEST.replace("autouse=True, ", "")
    _, processes, output, code = run({"single": "", "conftest.py": conftest, "test_file.py": text})
    assert (processes, code) == (3, 0), output


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
        {"test_many.py": many, "test_two.py": "import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no')"},
        "-ra",
    )
    assert code == 0, output
    assert "SKIPPED [1] test_two.py:3: no" in output
    assert len(ended) == 82
    assert set(ended.values()) == {1}
    assert processes > 1
    assert re.search(r"=== 81 passed, 1 skipped in ", output), output


DEATHS = {
    "failure": ("assert 'this' == 'that'", "AssertionError: assert 'this' == 'that'"),
    "exit": ("os._exit(7)", "the process that ran it ended with 7"),
    "crash": ("os.kill(os.getpid(), 11)", "the process that ran it ended with signal 11 (SIGSEGV)"),
}


@pytest.mark.parametrize(("line", "shown"), DEATHS.values(), ids=DEATHS)
def test_what_goes_wrong_twice_fails_the_run(run, line, shown) -> None:
    """What the process that has died left of its share is run."""
    after = "".join(f"def test_{i}(): pass\n" for i in range(5))
    ended, _, output, code = run({"test_it.py": f"import os\ndef test_it(): {line}\n{after}"})
    assert code == 1, output
    assert shown in output
    assert all(ended[f"test_{i}"] for i in range(5))
    assert re.search(r"=== 1 failed, 5 passed in [\d.]+s ===", output), output


@pytest.mark.parametrize("line", [line for line, _ in DEATHS.values()], ids=DEATHS)
def test_what_passes_alone_is_unsteady(run, tmp_path, line) -> None:
    """It is listed with its first failure, and counted over the runs."""
    once = f"""
        import os, pathlib
        def test_it():
            path = pathlib.Path("seen")
            if not path.exists():
                path.touch()
                {line}
    """
    for times in (1, 2):
        (tmp_path / "seen").unlink(missing_ok=True)
        _, _, output, code = run({"test_it.py": once, "test_other.py": "def test_other(): pass"})
        assert code == 0, output
        assert "UNSTEADY test_it.py::test_it\n" in output
        assert re.search(r"=== 2 passed in [\d.]+s ===", output), output
        counts = json.loads((tmp_path / ".unsteady.json").read_text())
        assert counts == {"runs": times, "unsteady": {"test_it.py::test_it": times}}


def test_many_failures_are_no_chance(run) -> None:
    many = "import pytest\n@pytest.mark.parametrize('i', range(30))\ndef test(i): assert i < 5"
    ended, _, output, code = run({"test_many.py": many})
    assert code == 1
    assert set(ended.values()) == {1}
    assert re.search(r"=== 25 failed, 5 passed in ", output), output


def test_tests_of_time_run_alone_after_the_others(run) -> None:
    both = "import pytest\n@pytest.mark.timing\ndef test_first(): pass\ndef test_second(): pass"
    run({"test_it.py": both})
    assert [line.split()[0] for line in (run.folder / "ran").read_text().splitlines()] == ["test_second", "test_first"]


def test_options_of_pytest_are_about_all_tests(run, tmp_path) -> None:
    """The first failure ends the run, the next run begins with it, and JUnit's file has one line for each test."""
    files = {"test_a.py": "def test_a(): assert False", "test_b.py": "def test_b(): pass"}
    assert "1 failed" in run(files, "--maxfail=1")[2]
    ended, _, output, _ = run(files, "--lf")
    assert ended["test_a"] == 3, output  # in the second run twice
    assert "1 failed in" in output
    run(files, "--junitxml=told.xml")
    assert re.findall(r'testcase classname="(\w+)"', (tmp_path / "told.xml").read_text()) in (
        ["test_a", "test_b"],
        ["test_b", "test_a"],
    )
