"""Jobs on several nodes that cannot be joined: the same error on all ranks, which names the node and what to do."""

import os
import subprocess
import sys

import pytest

from tests.nodes import started
from tests.support.patience import PATIENCE

JOB = str(started.ROOT / "tests/nodes/joining_job.py")


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        ("single_thread", "ShmcollError", "rank 0 (node a): MPI was started without THREAD_MULTIPLE"),
        pytest.param("version", "ShmcollError", "node b (ranks 2, 3): 0.", marks=pytest.mark.any_mpi),
        pytest.param(
            "no_room",
            "ShmcollError",
            "rank 2 (node b) cannot join: ArenaError: there is no room in /dev/shm",
            marks=pytest.mark.any_mpi,
        ),
        ("between_two", "TypeError", "an inter-communicator"),
        ("twice", "CallNotAllowed", "has joined a job already"),
        ("finalised", "CallNotAllowed", "MPI has been finalised"),
    ],
)
def test_what_cannot_be_joined_is_an_error_on_all_ranks(tmp_path, case, kind, text):
    done = started.run(tmp_path, JOB, "2x2", case, str(tmp_path))
    told = started.results(tmp_path, 4)
    assert [one[0] for one in told] == [kind] * 4, done.stderr
    assert all(text in one[1] for one in told), told


def test_a_rank_that_does_not_join_is_an_error_on_the_others(tmp_path):
    """And their programs end, though MPI waits for it."""
    started.run(tmp_path, JOB, "2x2", "absent", str(tmp_path), SHMCOLL_JOIN_TIMEOUT="2")
    told = [started.result(tmp_path, rank) for rank in (0, 1, 2)]
    assert [kind for kind, _ in told] == ["ShmcollError"] * 3
    assert all("has waited 2 s for all ranks to join" in text for _, text in told), told


def plain_process(folder, **variables):
    """Join as a rank of a job of 2, without any launcher; return what is printed."""
    script = "import shmcoll\ntry:\n    shmcoll.init()\nexcept shmcoll.ShmcollError as error:\n    print(error)\n"
    environment = {**started.environment(), "PYTHONPATH": f"{folder}{os.pathsep}{started.ROOT}", **variables}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SPREAD = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}


def test_without_mpi4py_the_refusal_names_the_extra(tmp_path):
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("raise ImportError('not here')\n")
    told = plain_process(tmp_path, **SPREAD)
    assert "OMPI_COMM_WORLD_SIZE=2 but OMPI_COMM_WORLD_LOCAL_SIZE=1" in told
    assert "pip install 'shmcoll[nodes]'" in told


def test_without_the_library_of_an_mpi_the_refusal_says_how_to_name_it(tmp_path):
    started.mpi_or_skip()
    missing = str(tmp_path / "libmpi.so.0")
    told = plain_process(tmp_path, **SPREAD, MPI4PY_LIBMPI=missing)
    assert "mpi4py cannot load the library of one" in told
    assert missing in told
    assert "Set MPI4PY_LIBMPI to" in told


def test_an_mpi_of_another_mpiexec_is_refused(tmp_path):
    """A process that is alone in its MPI, and of which a launcher says that there are two."""
    started.mpi_or_skip()
    told = plain_process(tmp_path, **SPREAD)
    assert "has started 2 ranks" in told
    assert "another MPI than that of this mpiexec" in told


def test_torchrun_on_several_machines_is_refused_as_before(tmp_path):
    variables = {"TORCHELASTIC_RUN_ID": "x", "RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    assert "Start them with mpiexec or srun" in plain_process(tmp_path, **variables)


def test_one_machine_imports_no_mpi():
    script = (
        "import sys, shmcoll; shmcoll.init().barrier(); "
        "print([name for name in sys.modules if name.startswith(('mpi4py', 'shmcoll.nodes'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=started.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.strip() == "[]"
