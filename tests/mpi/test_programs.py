"""Programs as they are written for MPI: each compares exactly with what one process computes in numpy, and writes the
same with all numbers of ranks, and over MPICH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.launched import Shmrun
from tests.support.patience import PATIENCE

pytest.importorskip("mpi4py")

HERE = Path(__file__).parent / "programs"
NAMES = [
    "stencil",
    "sample_sort",
    "conjugate_gradient",
    "master_and_workers",
    "pipeline",
    "sparse_exchange",
    "exchanges",
]
ALL = f"import runpy; [runpy.run_path({str(HERE)!r} + '/' + name + '.py') for name in {NAMES}]"
MPICH = Path(os.environ.get("SHMCOLL_LAUNCHERS") or Path(__file__).parents[2] / ".launchers") / "mpich"
WRITTEN = [
    "conjugate gradient: 857.325",
    "exchanges: all are equal",
    "master and workers: 27760",
    "pipeline: 300644775",
    "sample sort: 68311190 to 1099485313516",
    "sparse exchange: all have all",
    "stencil: 347.333",
]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_programs(shmrun: Shmrun, ranks: int) -> None:
    done = shmrun("-n", ranks, "--mpi", "-c", ALL)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == WRITTEN


@pytest.mark.parametrize("heap", ["16M", "32M"])
def test_exchanges_with_little_memory(shmrun: Shmrun, heap: str) -> None:
    """The messages cannot all be stored."""
    done = shmrun("-n", 2, "--mpi", "--heap", heap, HERE / "exchanges.py")
    assert (done.returncode, done.stdout) == (0, "exchanges: all are equal\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_programs_over_mpich(ranks: int) -> None:
    """The programs are right, and not only we with them."""
    if not (MPICH / ".ready").exists():
        pytest.skip("MPICH is not installed; make launchers does it")
    library = {"MPI4PY_LIBMPI": str(MPICH / "lib/libmpi.so.12")}
    command = [MPICH / "bin/mpiexec", "-n", str(ranks), sys.executable, "-c", ALL]
    done = subprocess.run(
        command, env=os.environ | library, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == WRITTEN
