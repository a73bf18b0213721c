"""What mpi4py brings beside its tests, unchanged: demos, the programs of its tutorial, and modules that are run.

`make test-mpi4py` fetches it, and runs this.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.launched import Shmrun
from tests.support.patience import PATIENCE

pytest.importorskip("mpi4py")

SOURCE = next(iter(sorted(Path(__file__).parents[2].glob(".mpi4py/*/.ready"))), Path("no/.ready")).parent
DEMO, TUTORIAL = SOURCE / "demo", SOURCE / "docs" / "source" / "tutorial.rst"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DEMO.exists(), reason="run make test-mpi4py")]

#: files of the folder `demo`, the number of ranks, arguments, what is typed; and what must be printed
DEMOS = [
    *((f"mpi-ref-v1/ex-{name}.py", 2, (), "") for name in ("2.01", "2.08", "2.16", "2.29", "2.32", "2.34", "2.35")),
    *((f"mpi-ref-v1/ex-3.{n:02}.py", 2, (), "") for n in (*range(1, 10), 11, 12, 13)),
    *((f"init-fini/test_{n}.py", 2, (), "") for n in (1, 2, 3, 4, 5, 6, "mpi40")),
    *(("init-fini/test_0.py", 2, (f"errors={how}",), "") for how in ("default", "exception", "abort", "fatal")),
    *(("init-fini/test_0.py", 2, (f"thread_level={level}",), "") for level in ("single", "multiple")),
    *((f"nxtval/nxtval-{how}.py", 3, (), "") for how in ("onesided", "scalable", "dynproc")),  # mpi3 has a race
    ("helloworld.py", 3, (), "I am process 2 of 3"),
    ("compute-pi/cpi-cco.py", 3, (), "pi is approximately 3.1416"),
    ("compute-pi/cpi-rma.py", 3, (), "pi is approximately 3.1416"),
    ("compute-pi/cpi-dpm.py", 1, ("2",), "computed pi is:  3.1416"),
    ("reductions/test_reductions.py", 3, (), ""),
    ("sequential/test_seq.py", 3, (), "I am process 2 of 3"),
    ("threads/sendrecv.py", 2, (), ""),
    ("futures/run_cpi.py", 1, (), "pi: 3.14159"),
]

#: modules with their arguments
MODULES = [
    (("mpi4py.bench", "helloworld"), "I am process 1 of 2"),
    (("mpi4py.bench", "ringtest", "-n", "1024", "-l", "10"), "time for 10 loops"),
    (("mpi4py.bench", "pingpong", "-n", "1024", "-l", "10", "--no-header"), "      1024 "),
    (("mpi4py.bench", "pingpong", "-p", "-o", "-n", "64", "-l", "10", "--no-header"), "        64 "),
    (("mpi4py.futures", "-m", "mpi4py.bench", "futures", "-t", "10", "-n", "64"), "        64 "),
    (("mpi4py.run", "-rc", "threads=False", "-m", "mpi4py.bench", "helloworld"), "I am process 1 of 2"),
    (("mpi4py", "--mpi-lib-version"), "shmcoll"),
    (("mpi4py.futures", str(DEMO / "futures" / "run_hello.py")), "I am worker 0 of 1"),
    (("mpi4py.futures", str(DEMO / "futures" / "run_cpi.py")), "pi: 3.14159"),
]

NOT_HERE = ("import cupy", "Get_parent()", "helloworld")  # a device; run by another one; needs a compiler
FORMER = "import numpy\nnumpy.int = int  # numpy no longer has it\n"


@pytest.mark.parametrize(("path", "ranks", "arguments", "printed"), DEMOS)
def test_demos(shmrun: Shmrun, path: str, ranks: int, arguments: tuple[str, ...], printed: str) -> None:
    shmrun.folder = (DEMO / path).parent  # some read a file beside them
    done = shmrun("-n", ranks, "--mpi", DEMO / path, *arguments, given="100\n0\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout


@pytest.mark.parametrize(("words", "printed"), MODULES, ids=lambda words: " ".join(words[:2]))
def test_modules(shmrun: Shmrun, words: tuple[str, ...], printed: str) -> None:
    done = shmrun("-n", 2, "--mpi", "-m", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout


def test_programs_of_the_tutorial(shmrun: Shmrun) -> None:
    blocks = re.findall(r"::\n\n((?:[ ]{3,}.*\n|\n)+)", TUTORIAL.read_text())
    programs = [textwrap.dedent(block) for block in blocks if "from mpi4py import" in block]
    runs = [program for program in programs if not any(word in program for word in NOT_HERE)]
    assert len(runs) == 15
    shmrun.write(next(program for program in programs if "Get_parent()" in program), "cpi.py")
    for program in runs:
        done = shmrun("-n", 1 if "Spawn" in program else 3, "--mpi", shmrun.write(FORMER + program))
        assert done.returncode == 0, program + done.stdout + done.stderr


def test_its_own_tests_of_mpi4py_run(tmp_path: Path) -> None:
    """How jobs end that have failed, by `python -m mpi4py.run`."""
    mpiexec = f"{sys.executable} -m shmrun --mpi"
    done = subprocess.run(
        [sys.executable, DEMO / "test-run" / "test_run.py"],
        env=os.environ | {"MPIEXEC": mpiexec},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
