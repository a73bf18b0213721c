"""`shmcoll.run` in programs that are not run by an interpreter: they are not started again without end.

The programs here are scripts with a first line of their own, so that the kernel starts them whatever their arguments
are, and which note each start.
"""

import multiprocessing.spawn
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shmcoll
from shmcoll.engine.system import interpreter
from shmcoll.runner import api

PROGRAM = """#!{python}
import os, sys
with open({log!r}, "a") as log:
    print(sys.argv[1:], file=log)
if len(open({log!r}).readlines()) > 8:
    os._exit(9)
sys.executable = os.path.abspath(__file__)
{setting}
import shmcoll
if __name__ == "__main__":
    {first}
    def add():
        comm = shmcoll.init()
        return int(comm.all_reduce([1])[0])
    try:
        print(shmcoll.run(add, 2), shmcoll.run(add, 2, method="spawn"), shmcoll.map(str, "ab", n=1))
        with shmcoll.ranks(2, method="spawn") as r:
            print(r.run(add), sys.argv[1:])
    except shmcoll.ShmcollError as e:
        print(type(e).__name__, e)
"""
DONE = "[2, 2] [2, 2] ['a', 'b']\n[2, 2] ['x']\n"


@pytest.fixture
def program(scripts: Any, tmp_path: Path) -> Callable[[str, str], tuple[str, list[str]]]:
    """`program(setting, first)`: what it prints, and the arguments of each of its starts but the first."""

    def run(setting: str, first: str = "pass") -> tuple[str, list[str]]:
        path, log = tmp_path / "program", tmp_path / "log"
        path.write_text(PROGRAM.format(python=sys.executable, log=str(log), setting=setting, first=first))
        path.chmod(0o755)
        process = scripts.start_process([path, "x"], None)
        out, err = process.communicate(timeout=60)
        assert (err, process.returncode) == ("", 0)
        return out.replace(str(path), "PROGRAM"), log.read_text().splitlines()[1:]

    return run


def test_a_frozen_program_is_not_started_again(program: Any) -> None:
    out, starts = program("sys.frozen = True")
    assert out == (
        "ShmcollError PROGRAM is a frozen program, which shmcoll has to start again; call shmcoll.freeze_support() "
        'first in the program, after `if __name__ == "__main__":`\n'
    )
    assert starts == []


def test_a_frozen_program_with_support_runs_ranks(program: Any) -> None:
    out, starts = program("sys.frozen = True", "shmcoll.freeze_support()")
    assert out == DONE
    modules = [re.findall(r"shmcoll\.runner[.\w]*", line)[0] for line in starts]
    assert Counter(modules) == {"shmcoll.runner": 2, "shmcoll.runner.serve_calls": 4}


@pytest.mark.slow
def test_a_program_that_does_not_say_what_it_is_begins_anew_once(program: Any) -> None:
    out, starts = program("")
    assert "exited with code 0 while it started" in out
    assert len(starts) == 1


@pytest.mark.slow
def test_support_is_enough_for_it(program: Any) -> None:
    assert program("", "shmcoll.freeze_support()")[0] == DONE


@pytest.mark.slow
def test_an_interpreter_that_is_named_is_started(program: Any) -> None:
    named = f"import multiprocessing; multiprocessing.set_executable({sys.executable!r})"
    assert program(f"sys.frozen = True; {named}") == (DONE, [])


@pytest.mark.parametrize(
    ("executable", "frozen", "argv", "text"),
    [
        ("/opt/program", True, ["x"], "/opt/program is a frozen program"),
        ("", False, [], "sys.executable is '', which cannot be started"),
        (None, False, ["x"], "sys.executable is '', which cannot be started"),
        ("/opt/no/such/python", False, ["x"], "sys.executable is '/opt/no/such/python', which cannot be started"),
        (sys.executable, False, [], f"{sys.executable} is a program that embeds Python"),
    ],
)
def test_nothing_is_started_without_an_interpreter(
    monkeypatch: pytest.MonkeyPatch, executable: str, frozen: bool, argv: list[str], text: str
) -> None:
    api.shutdown()
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", None)
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(sys, "frozen", frozen, raising=False)
    monkeypatch.setattr(sys, "orig_argv", argv)
    for call in (
        lambda: shmcoll.run(int, 1),
        lambda: shmcoll.ranks(1),
        lambda: shmcoll.map(int, "1"),
        lambda: interpreter.command("shmcoll.startup.warm"),
        interpreter.python,
    ):
        with pytest.raises(shmcoll.ShmcollError) as caught:
            call()
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)
