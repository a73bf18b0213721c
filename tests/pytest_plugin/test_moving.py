"""Suites as the users of other plug-ins write them: what changes is the mark, and the settings."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pytest_suites import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py"),
]

MPI = ["ranks_mpi = true"]

#: mpi-pytest
PARALLEL = """
import pytest
from mpi4py import MPI
from pytest_mpi import parallel_assert

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

def test_serial():
    assert size == 1

@pytest.mark.parallel(nprocs=2)
def test_two():
    assert comm.allreduce(1) == 2 == size

@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("root", [0])
def test_each(root):
    assert comm.bcast(rank, root=root) == root

@pytest.mark.parallel
def test_default():
    parallel_assert(comm.size == 3, "three")
    parallel_assert(comm.rank != 2, "not the last")
"""

#: pytest-isolate-mpi
ISOLATED = """
import os
import pytest

@pytest.mark.mpi(ranks=[1, 2])
def test_ranks(mpi_ranks, comm):
    assert comm.size == mpi_ranks

@pytest.mark.mpi(ranks=2, timeout=5, unit="s")
def test_directory(mpi_tmp_path, comm):
    (mpi_tmp_path / str(comm.rank)).touch()
    comm.barrier()
    assert len(list(mpi_tmp_path.iterdir())) == 2

@pytest.mark.mpi(ranks=2)
def test_abort(comm):
    if comm.rank == 1:
        comm.Abort(3)
    comm.barrier()
"""

#: pytest-mpi, whose tests run in one job of mpiexec
IN_JOB = """
import pytest
from mpi4py import MPI

@pytest.mark.mpi(min_size=2)
def test_size(mpi_tmp_path):
    comm = MPI.COMM_WORLD
    assert comm.size >= 2
    assert comm.bcast(str(mpi_tmp_path)) == str(mpi_tmp_path)
"""

FIXTURES = """
import pytest

@pytest.fixture
def mpi_tmp_path(tmp_path):
    return tmp_path

@pytest.fixture
def mpi_ranks(comm):
    return comm.size
"""


def changed(source: str, *changes: tuple[str, str]) -> str:
    for before, after in changes:
        assert before in source
        source = source.replace(before, after)
    return source


def test_a_suite_of_mpi_pytest(tmp_path: Path) -> None:
    source = changed(
        PARALLEL,
        ("parallel(nprocs=2)", "ranks(2)"),
        ("parallel([1, 3])", "ranks(1, 3)"),
        ("mark.parallel\n", "mark.ranks(3)\n"),
        ("from pytest_mpi import parallel_assert", ""),
        ('parallel_assert(comm.size == 3, "three")', 'assert comm.size == 3, "three"'),
        ('parallel_assert(comm.rank != 2, "not the last")', 'assert comm.rank != 2, "not the last"'),
    )
    told = run(tmp_path, source, ini=MPI)
    assert told.outcomes == {
        "test_serial": "passed",
        "test_two[2 ranks]": "passed",
        "test_each[0-1 rank]": "passed",
        "test_each[0-3 ranks]": "passed",
        "test_default[3 ranks]": "failure",
    }, told.output
    assert "----- rank 2 -----" in told.output and "AssertionError: not the last" in told.output


def test_a_suite_of_pytest_isolate_mpi(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(FIXTURES)
    source = changed(
        ISOLATED,
        ("mpi(ranks=[1, 2])", "ranks(1, 2)"),
        ('mpi(ranks=2, timeout=5, unit="s")', "ranks(2, timeout=5)"),
        ("mpi(ranks=2)", "ranks(2)"),
    )
    told = run(tmp_path, source, ini=MPI)
    assert told.outcomes == {
        "test_ranks[1 rank]": "passed",
        "test_ranks[2 ranks]": "passed",
        "test_directory[2 ranks]": "passed",
        "test_abort[2 ranks]": "failure",
    }, told.output
    assert "FAILED test_suite.py::test_abort[2 ranks] - rank 1 exited with code 3" in told.output
    assert "therefore, rank 0: mpi4py.MPI.Exception: barrier #" in told.output


def test_a_suite_of_pytest_mpi(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(FIXTURES)
    source = changed(IN_JOB, ("mpi(min_size=2)", "ranks(2)"))
    told = run(tmp_path, source, ini=MPI)
    assert told.outcomes == {"test_size[2 ranks]": "passed"}, told.output
    before = [sys.executable, "-m", "shmrun", "-n", "2", "--mpi"]
    assert run(tmp_path, source, before=before).status == 0
    version = subprocess.run(
        [sys.executable, "-m", "pytest", "--markers"], capture_output=True, text=True, cwd=tmp_path
    )
    assert "@pytest.mark.ranks(*numbers, timeout=None)" in version.stdout
