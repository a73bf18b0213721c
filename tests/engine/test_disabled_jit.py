"""NUMBA_DISABLE_JIT is for the user's own functions: jobs, operators and jitted calls work all the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

JOB = """
import numba
import numpy as np
import shmcoll

@numba.njit
def plus(a, b):
    return a + b

@numba.njit
def twice(a, b):
    return plus(a, b)

comm = shmcoll.init()
x = np.full(4, 2.0)
print(comm.all_reduce(x, shmcoll.op(lambda a, b: a + b))[0], comm.all_reduce(x, shmcoll.op(plus))[0])
try:
    shmcoll.op(twice)
except TypeError as e:
    print(str(e).rpartition("(")[2])
"""

JITTED = """
import numba
import numpy as np
import shmcoll
from shmcoll import jit

@numba.njit
def reduce(h, x):
    jit.all_reduce(h, x, x)

x = np.ones(4)
reduce(shmcoll.init().handle, x)
print(x[0])
"""


def run(folder: Path, code: str, **environment: str) -> str:
    (folder / "job.py").write_text(code)
    command = [sys.executable, "-m", "shmrun", "-n", "1", "job.py"]
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"} | environment
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            *("NUMBA_CPU_FEATURES", "+avx2,nonsense"),
            "NUMBA_CPU_FEATURES='+avx2,nonsense': 'nonsense' must begin with + or -, as in '+avx2,-avx512f'; change "
            "it, or unset NUMBA_CPU_FEATURES",
        ),
        (
            *("NUMBA_NUM_THREADS", "0"),
            "numba cannot be imported with NUMBA_NUM_THREADS='0': Number of threads specified must be > 0. Change or "
            "unset it",
        ),
    ],
)
def test_a_variable_that_numba_cannot_take_is_named(name: str, value: str, text: str) -> None:
    code = "import shmcoll; shmcoll.op(lambda a, b: a)"
    env = {key: one for key, one in os.environ.items() if not key.startswith("NUMBA_")} | {name: value}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stderr.splitlines()[-1] == f"ValueError: {text}"


def test_operators_are_compiled(tmp_path: Path) -> None:
    """A function that they call is not: the text says why."""
    reason = "NUMBA_DISABLE_JIT is set, so functions that it calls are not jitted: unset it)\n"
    assert run(tmp_path, JOB) == f"2.0 2.0\n{reason}"


def test_jitted_functions_call_from_python(tmp_path: Path) -> None:
    assert run(tmp_path, JITTED) == "1.0\n"


def test_programs_may_hide_numba(tmp_path: Path) -> None:
    """As mpi4py's own tests do. Both operators are compiled, and numba stays hidden."""
    operators = "shmcoll.op(lambda a, b: a + b), shmcoll.op(lambda a, b: a * b + 1)"
    code = f"import sys\nsys.modules['numba'] = None\nimport shmcoll\nprint(shmcoll.init().all_reduce(7), {operators})"
    code += "\nprint(sys.modules['numba'])"
    assert run(tmp_path, code).splitlines()[-1] == "None"


@pytest.mark.slow
def test_routines_are_compiled(tmp_path: Path) -> None:
    code = "import shmcoll\nprint(shmcoll.init().all_reduce(7))"
    assert run(tmp_path, code, SHMCOLL_CACHE_DIR=str(tmp_path / "cache")) == "7\n"
