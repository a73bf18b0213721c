"""A variable of ours with any value works, or is refused in a line that names the variable and the value."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shmrun.cli.settings import SETTINGS

import shmcoll
from shmcoll.runner import shutdown

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "environment.md").read_text()
OPTIONS = {setting.variable for setting in SETTINGS.values() if setting.variable}
NAMES = sorted(OPTIONS | set(re.findall(r"`(SHMCOLL_[A-Z_]*[A-Z])`", PAGE)))
VALUES = {
    "garbage": b"gar bage",
    "empty": b"",
    "bytes": b"\xff\xfe",
    "huge": b"9" * 40,
    "negative": b"-1",
    "odd": "²".encode(),
}

# A fork of this process, with one variable set, is shmrun or a rank on its own. It prints one line for each that does
# not end as it should.
TRIALS = """
import os, runpy, sys
import shmcoll.startup.join, shmrun.watch.supervise, shmrun.watch.failure_summary
import shmcoll.communicator.communicator, shmcoll.runtime.local_rank

def trial(name, value, words):
    "Return the exit code, and what it has said."
    said = os.memfd_create("said")
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(said, 2)
        os.environb[name] = value
        if words:
            sys.argv = ["shmrun", *words]
            runpy._run_module_as_main("shmrun")
        else:
            shmcoll.init()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    text = os.pread(said, 1 << 20, 0).decode()
    os.close(said)
    return os.waitstatus_to_exitcode(status), text

_, value, *names = sys.argv
value = os.fsencode(value)
for name in names:
    for words in (["-n", "1", "true"], []):
        code, said = trial(os.fsencode(name), value, words)
        line = (said.splitlines() or [""])[-1]
        if code and not (name in line and repr(os.fsdecode(value)) in line):
            print(name, value, words, code, said)
        if words and said.count("\\n") > 1 or not code and "Traceback" in said or code and not value:
            print(name, value, words, code, said)
"""


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
def test_any_value_works_or_is_refused_in_a_line(tmp_path, value):
    command = [sys.executable, "-c", TRIALS, VALUES[value], *NAMES]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHMCOLL_")}
    told = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr, told.returncode) == ("", "", 0)


def test_a_wrong_fault_is_refused_before_ranks_start(monkeypatch):
    monkeypatch.setenv("SHMCOLL_FAULTS", "0:kill@1,1:die@3")
    text = "SHMCOLL_FAULTS='0:kill@1,1:die@3': '1:die@3' is not a fault; give RANK:kill@K"
    try:
        with pytest.raises(ValueError, match=re.escape(text)) as raised:
            shmcoll.run(os.getpid, 2)
    finally:
        shutdown()
    assert not getattr(raised.value, "__notes__", [])  # it is not of a rank
