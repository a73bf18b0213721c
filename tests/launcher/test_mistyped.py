"""What is close to a name that exists is answered with that name: variables, subcommands, collectives."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from shmrun.cli.config_sources import OTHER_VARIABLES
from shmrun.cli.settings import SETTINGS

import shmcoll
from tests.support.patience import PATIENCE

DOCUMENTED = Path(__file__).parents[2] / "docs" / "reference" / "environment.md"


def told(*command: str, **variables: str) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, timeout=PATIENCE)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        (("shmrun", "inspec"), 2, "how many ranks? Give -n, as in: shmrun -n 4 script.py; did you mean inspect? (see"),
        (("shmrun", "-n", "2", "train.ipynb"), 126, "a script of it: jupyter nbconvert --to script train.ipynb\n"),
        (("shmrun", "train.py"), 2, "how many ranks? Give -n, as in: shmrun -n 4 train.py (see"),
        (("shmrun", "--nprocs", "2", "x.py"), 2, "--nprocs is ignored, with its value '2'; did you mean -n 2?\n"),
        (("shmrun", "--num_processes=2", "x.py"), 2, "; did you mean -n 2?\n"),
        (("shmrun", "--world_size", "auto", "x.py"), 2, "; did you mean -n auto?\n"),
        (("shmrun", "--cpus-per-task", "2", "x.py"), 2, "--cpus-per-task is ignored, with its value '2'\n"),
        (("shmrun",), 2, "as in: shmrun -n 4 script.py (see"),
        (("shmrun", "3", "x.py", "-v"), 2, "as in: shmrun -n 3 x.py -v (see"),
        (("shmrun", "x.py", "-n", "3", "a b"), 2, "as in: shmrun -n 3 x.py 'a b'; options of shmrun come before"),
        (("shmrun", "-j", "2", "x.py"), 2, "how many ranks? Give -n, as in: shmrun -n 4 x.py"),
        (("shmbench", "allreduce"), 2, "unknown collective 'allreduce'; did you mean all_reduce?: choose one of"),
        (("shmbench", "comapre"), 2, "unknown collective 'comapre'; did you mean compare?: choose one of"),
        (("shmbench", "--version"), 0, f"shmbench {shmcoll.__version__}\n"),
        ((sys.executable, "-m", "shmcoll"), 0, "shmrun -n 4 script.py     run a script on 4 ranks"),
        ((sys.executable, "-m", "shmcoll", "--version"), 0, f"shmcoll {shmcoll.__version__}\n"),
        ((sys.executable, "-m", "shmcoll", "-n", "2", "x.py"), 2, "did you mean shmrun -n 2 x.py?"),
    ],
)
def test_what_is_said(command, code, text):
    done, printed = told(*command)
    assert (done, text in printed) == (code, True), printed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("jbo.py", "no such script: 'jbo.py'; looked in {here}; did you mean job.py?\n"),
        ("{here}/jbo.py", "no such script: '{here}/jbo.py'; did you mean {here}/job.py?\n"),
        ("job", "no such program in PATH: 'job'; did you mean job.py?\n"),
        ("job.py --lr 1", "no such program: 'job.py --lr 1'; write its arguments as words of their own, without these"),
        ("none/job.py", "no such script: 'none/job.py'; looked in {here}\n"),
    ],
)
def test_what_is_said_of_a_file(tmp_path, monkeypatch, name, text):
    (tmp_path / "job.py").touch()
    monkeypatch.chdir(tmp_path)
    code, printed = told("shmrun", "-n", "1", name.format(here=tmp_path))
    assert (code, text.format(here=tmp_path) in printed) == (127, True), printed


def test_a_current_directory_that_is_gone(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for words in (["-m", "json.tool"], ["job.py"], [str(tmp_path / "job.py")], ["--trace", "t", "true"]):
        said = 'shmrun: the current directory has been removed; go to it again, if it is there: cd "$PWD"\n'
        assert told("shmrun", "-n", "1", *words) == (1, said)


def test_a_variable_that_nobody_reads_is_named():
    code, printed = told("shmrun", "-n", "1", "true", SHMCOLL_TIME_OUT="5", SHMCOLL_QQQ="1")
    assert code == 0
    assert "SHMCOLL_TIME_OUT is ignored: shmcoll has none of this name; did you mean SHMCOLL_TIMEOUT?\n" in printed
    assert "SHMCOLL_QQQ is ignored: shmcoll has none of this name\n" in printed


def test_no_variable_that_is_documented_is_called_unknown():
    documented = set(re.findall(r"`(SHMCOLL_[A-Z_]+)`", DOCUMENTED.read_text()))
    known = {*OTHER_VARIABLES, *(setting.variable for setting in SETTINGS.values() if setting.variable)}
    assert documented - known == set()
    assert known - documented <= {"SHMCOLL_BUILD_OBJECTS"}  # of the build, not of a job


def test_a_package_that_has_another_name_here(tmp_path):
    (tmp_path / "job.py").write_text("import mindspore")
    code, printed = told("shmrun", "-n", "1", str(tmp_path / "job.py"))
    assert code == 1
    assert (
        "No module named 'mindspore'\nshmcoll has a part of MindSpore: start the job by shmrun --mindspore" in printed
    )


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_torch_is_missing():
    _, printed = told(sys.executable, "-c", "import shmcoll.torch")
    assert printed.endswith("shmcoll.torch needs PyTorch: pip install 'shmcoll[torch]'\n")


def test_dir_shows_public_names():
    shown = dir(shmcoll)
    assert {name for name in shown if name.startswith("_")} == {"__version__"}
    assert all(hasattr(shmcoll, name) for name in shown)
