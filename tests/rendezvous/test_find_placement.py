"""What each launcher's variables mean."""

import pytest

from shmcoll.errors import ShmcollError
from shmcoll.startup.launchers import find_placement

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "0",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
    "PMIX_NAMESPACE": "prterun-host-77@1",
}  # fmt: skip
HYDRA = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
SRUN = {"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "1", "SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_NNODES": "1"}
MSRUN = {
    "MS_ROLE": "MS_WORKER",
    "RANK_ID": "1",
    "MS_WORKER_NUM": "2",
    "MS_SCHED_HOST": "127.0.0.1",
    "MS_SCHED_PORT": "8118",
}
BY_HAND = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1234"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (TORCHRUN, ("torchrun", 1, 4)),
        (OPEN_MPI, ("openmpi", 2, 3)),
        (HYDRA, ("hydra", 0, 2)),
        (SRUN, ("srun", 3, 4)),
        ({**SRUN, "PMI_RANK": "3", "PMI_SIZE": "4", "PMI_JOBID": "9.1"}, ("srun", 3, 4)),  # --mpi=pmi2
        ({**SRUN, "PMIX_RANK": "3", "PMIX_NAMESPACE": "slurm.pmix.9.1"}, ("srun", 3, 4)),  # --mpi=pmix
        ({**SRUN, **HYDRA}, ("hydra", 0, 2)),  # mpiexec in a shell that srun has started
        (MSRUN, ("msrun", 1, 2)),
        (BY_HAND, ("environment", 1, 2)),
    ],
)
def test_place(environment: dict[str, str], expected: tuple[str, int, int]) -> None:
    place = find_placement(environment)
    assert place is not None and (place.launcher, place.rank, place.size) == expected


def test_alone() -> None:
    assert find_placement({}) is None
    assert find_placement({"SLURM_STEP_ID": str(0xFFFFFFFB), "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) is None


@pytest.mark.parametrize(
    ("environment", "changed"),
    [
        (TORCHRUN, "MASTER_PORT"),
        (TORCHRUN, "TORCHELASTIC_RESTART_COUNT"),
        (OPEN_MPI, "PMIX_NAMESPACE"),
        (SRUN, "SLURM_STEP_ID"),
        (MSRUN, "MS_SCHED_PORT"),
        (BY_HAND, "MASTER_PORT"),
    ],
)
def test_other_jobs_have_other_keys(environment: dict[str, str], changed: str) -> None:
    one, other = find_placement(environment), find_placement({**environment, changed: "7"})
    assert one is not None and other is not None and one.key != other.key


@pytest.mark.parametrize(
    ("environment", "change"),
    [
        (TORCHRUN, {"LOCAL_WORLD_SIZE": "2"}),
        (OPEN_MPI, {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}),
        (HYDRA, {"MPI_LOCALNRANKS": "1"}),
        (SRUN, {"SLURM_NNODES": "2"}),
        (SRUN, {"SLURM_NNODES": "2", "PMI_RANK": "3", "PMI_SIZE": "4"}),
        ({}, {"PMI_RANK": "3", "PMI_SIZE": "4"}),  # a launcher that is not known
        (BY_HAND, {"LOCAL_WORLD_SIZE": "1"}),
    ],
)
def test_several_machines_are_refused(environment: dict[str, str], change: dict[str, str]) -> None:
    with pytest.raises(ShmcollError, match="several machines"):
        find_placement({**environment, **change})


def test_numbers_that_are_none() -> None:
    with pytest.raises(ShmcollError, match="RANK='x'"):
        find_placement({**BY_HAND, "RANK": "x"})
    with pytest.raises(ShmcollError, match="rank 2 of 2"):
        find_placement({**BY_HAND, "RANK": "2"})


def test_the_scheduler_of_msrun_takes_no_part() -> None:
    with pytest.raises(SystemExit) as ended:
        find_placement({**MSRUN, "MS_ROLE": "MS_SCHED"})
    assert ended.value.code == 0
