"""`shmrun -c CODE` and `shmrun -`: every rank runs the code, as `python -c` and `python -` do."""

import os
import subprocess
import sys

import pytest

WAYS = pytest.mark.parametrize("way", [(), pytest.param(("--fresh",), marks=pytest.mark.slow)], ids=["fork", "fresh"])
CODE = "import shmcoll, sys; print(shmcoll.init().all_reduce(1), sys.argv[1:], sys.stdin.read())"


@WAYS
def test_every_rank_runs_it(shmrun, way):
    assert shmrun("-n", 2, *way, "-c", CODE, "a", given="rest").stdout.splitlines() in both("2 ['a'] ", "rest")
    assert shmrun("-n", 2, *way, "-", "a", given=CODE).stdout.splitlines() == ["2 ['a'] "] * 2


@pytest.mark.slow
def test_the_launchers_own_interpreter_before_it_is_no_program(shmrun):
    code = "import sys; print('numpy' in sys.modules, sys.argv)"
    assert shmrun("-n", 1, sys.executable, "-c", code, "b").stdout == "True ['-c', 'b']\n"
    assert shmrun("-n", 1, sys.executable, "-", "b", given=code).stdout == "True ['-', 'b']\n"


@WAYS
def test_an_exception(shmrun, way):
    code = "import sys\nraise ValueError('bad')"
    told = shmrun("-n", 1, *way, "-c", code)
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert told.stderr == "shmrun: rank 0 failed first, with exit code 1:\n" + plain.stderr


def test_a_number_after_it_is_an_option_of_another_launcher(shmrun):
    """`srun -c 4` says how many cores a task gets."""
    told = shmrun("-n", 1, "-c", "4", shmrun.write("print('here')"))
    assert told.stdout == "here\n"
    assert told.stderr == "shmrun: unknown option -c is ignored, with its value '4'\n"


def test_code_that_is_missing(shmrun):
    told = shmrun("-n", 1, "-c")
    assert (told.returncode, told.stdout) == (2, "")
    assert "what shall the ranks run" in told.stderr


def test_a_terminal_is_no_program(shmrun):
    ours, theirs = os.openpty()
    try:
        told = shmrun("-n", 1, "-", stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    text = "shmrun: - is a program on the standard input; redirect it, as in: shmrun -n 2 - < script.py\n"
    assert (told.returncode, told.stderr) == (2, text)


def test_what_has_no_main_in_it(shmrun):
    (shmrun.folder / "empty").mkdir()
    told = shmrun("-n", 1, "./empty")
    assert told.returncode == 126
    assert told.stderr == "shmrun: './empty' is a directory; name a script in it, or use -m for a package\n"


def both(first: str, rest: str) -> list[list[str]]:
    """Rank 0 has the standard input; either may print first."""
    return [[first + rest, first], [first, first + rest]]
