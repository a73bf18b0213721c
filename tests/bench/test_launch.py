"""Starting a library: what fails or hangs is ended, told in a line, and leaves the rest alone."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from shmbench.timing import launch
from shmbench.timing.peers import PEERS, SCRIPTS, Home, installed

from shmcoll.engine.system.processes import process_start
from tests.support.waiting import until

HANGS = "import signal; signal.pause()"


HANGING = """
import os, sys
from pathlib import Path
from shmbench.timing import launch

code = "import os, signal, sys; print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True); signal.pause()"
launch._commands = lambda *_: [([sys.executable, "-c", code, *sys.argv[1:]], dict(os.environ))]
launch.run("mpich", {}, [], 2, 100)
"""


def test_a_library_ends_with_the_comparison(tmp_path):
    """Even if that is killed: otherwise its ranks would disturb what is measured next."""
    written = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", HANGING, str(written)]) as comparison:
        until(lambda: (written.exists() and written.read_text().endswith("\n")) or comparison.poll() is not None)
        pid = int(written.read_text())
        start = process_start(pid)
        assert start
        comparison.kill()
    until(lambda: process_start(pid) != start, f"process {pid} is left behind")


@pytest.fixture
def start(monkeypatch):
    """Run Python code in place of a library, one process each."""

    def start(*codes, timeout=30):
        commands = [([sys.executable, "-c", code], dict(os.environ)) for code in codes]
        monkeypatch.setattr(launch, "_commands", lambda *_: commands)
        launch.run("mpich", {}, [], 2, timeout)

    return start


def test_what_ends_well_says_nothing(start, capfd):
    start("print('a table')", "import sys; print('a warning', file=sys.stderr)")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise SystemExit(3)", "exit code 3: nothing printed"),
        ("print('one', flush=True); raise SystemExit('two')", "exit code 1: two"),
        (
            "print('KeyError: 7'); print('=== the launcher'); raise SystemExit(9)",
            "exit code 9: KeyError: 7",
        ),
        ("print('# Out of bounds values : 3 FAILED'); raise SystemExit(1)", "values : 3 FAILED"),
    ],
)
def test_what_fails_is_told_by_the_line_that_says_most(start, code, told):
    with pytest.raises(launch.Failed, match=told):
        start(code)


def test_what_hangs_is_ended_with_all_it_started(start, tmp_path):
    child = tmp_path / "child"
    code = f"""
import pathlib, subprocess, sys, time
p = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
pathlib.Path({str(child)!r}).write_text(str(p.pid))
p.wait()
"""
    with pytest.raises(launch.Failed, match="not done after 3 s"):
        start(code, timeout=3)
    for _ in range(500):
        if process_start(int(child.read_text())) == 0:
            return
        time.sleep(0.01)
    pytest.fail("the child of what was ended is still there")


def test_the_others_are_ended_when_one_fails(start):
    before = time.monotonic()
    with pytest.raises(launch.Failed, match="exit code 1"):
        start("raise SystemExit(1)", HANGS, timeout=600)
    assert time.monotonic() - before < 300


def test_each_library_has_its_launcher():
    homes = {name: Home.of(Path("p", name)) for name in PEERS}
    ((ours, _),) = launch._commands("shmcoll", homes, ["gather"], 3)
    assert ours == [sys.executable, "-m", "shmbench", "gather"]

    ((theirs, environment),) = launch._commands("openmpi", homes, ["gather"], 3)
    mpi = [str(SCRIPTS / "mpi.py"), "gather"]
    flags = ["--allow-run-as-root", "--oversubscribe", "-n", "3"]
    assert theirs == ["p/openmpi/bin/mpiexec", *flags, "p/openmpi/bin/python", *mpi]
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(SCRIPTS.parent)

    ranks = launch._commands("gloo", homes, ["gather"], 3)
    assert [command for command, _ in ranks] == 3 * [["p/gloo/bin/python", str(SCRIPTS / "gloo.py"), "gather"]]
    assert [environment["RANK"] for _, environment in ranks] == ["0", "1", "2"]
    assert len({(environment["MASTER_PORT"], environment["WORLD_SIZE"]) for _, environment in ranks}) == 1


def test_only_complete_environments_count(tmp_path):
    assert installed(tmp_path) == {}
    for name in ("gloo", "mpich", "impi"):
        (tmp_path / name).mkdir()
    (tmp_path / "gloo" / "installed").touch()
    (tmp_path / "mpich" / "installed").touch()
    assert list(installed(tmp_path)) == ["mpich", "gloo"]
    assert all((SCRIPTS / peer.script).exists() for peer in PEERS.values())
