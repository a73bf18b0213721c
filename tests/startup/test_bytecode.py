"""Interpreters that we start write bytecode where the first one does, or not at all, as it does."""

import os
import subprocess
import sys

import pytest

from tests.support.patience import PATIENCE

# In the interpreter itself, in a rank that it starts, in a rank of shmrun, and in one that ignores the environment, as
# the watcher of a node does
SCRIPT = """
import subprocess, sys
import shmcoll
from shmcoll.engine.system.interpreter import flags

def facts():
    return sys.dont_write_bytecode, sys.pycache_prefix

if __name__ == "__main__":
    ask = ["-c", "import sys; print((sys.dont_write_bytecode, sys.pycache_prefix))"]
    print(facts())
    print(shmcoll.run(facts, 1, method="spawn")[0])
    for command in (["-m", "shmrun", "-n", "1", "--fresh"], ["-I", "-S"]):
        told = subprocess.run([sys.executable, *flags(), *command, *ask], stdout=subprocess.PIPE, text=True)
        print(told.stdout, end="")
"""
WAYS = {
    "-B": (["-B"], {}, "(True, None)"),
    "variable": ([], {"PYTHONDONTWRITEBYTECODE": "1"}, "(True, None)"),
    "-X": (["-X", "pycache_prefix={0}"], {}, "(False, '{0}')"),
    "prefix": ([], {"PYTHONPYCACHEPREFIX": "{0}"}, "(False, '{0}')"),
    "none": ([], {}, "(False, None)"),
}


@pytest.mark.parametrize(
    "way", ["variable", *(pytest.param(way, marks=pytest.mark.slow) for way in WAYS if way != "variable")]
)
def test_every_interpreter_of_ours_treats_bytecode_alike(tmp_path, way):
    options, variables, facts = WAYS[way]
    folder = str(tmp_path / "elsewhere")
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if "BYTECODE" not in k and "PYCACHE" not in k}
    told = subprocess.run(
        [sys.executable, *(word.format(folder) for word in options), "script.py"],
        env=environment | {name: value.format(folder) for name, value in variables.items()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (told.stdout.splitlines(), told.stderr) == ([facts.format(folder)] * 4, "")
