"""How ranks join the torch backend without a launcher: again in one process, and beside gloo.

The ranks are forks, because each process that imports torch takes many seconds. `test_launchers.py` starts real ones.
"""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402

import shmcoll  # noqa: E402
import shmcoll.torch  # noqa: E402
from tests.torch import joining  # noqa: E402


@pytest.fixture
def forks(monkeypatch: Any) -> Any:
    """Start ranks as forks that know nothing of each other; raises what one of them raises."""
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return lambda function, *arguments: torch.multiprocessing.start_processes(
        function, arguments, nprocs=2, start_method="fork"
    )


def by_number(rank: int, path: str) -> None:
    joining.work(rank, 2, {"init_method": f"file://{path}", "rank": rank, "world_size": 2})


def test_ranks_join_again_and_again(forks: Any, tmp_path: Path, capfd: Any) -> None:
    forks(by_number, str(tmp_path / "meeting"))
    assert sorted(capfd.readouterr().out.splitlines()) == [f"rank {rank} of 2 by explicit" for rank in range(2)]


def a_part_first(rank: int, path: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    if rank == 0:
        with pytest.raises(ValueError, match="the first group of the backend shmcoll has 1 of 2 ranks"):
            dist.new_group([0], backend="shmcoll")
    else:
        dist.new_group([0], backend="shmcoll")
    dist.barrier()


def test_the_first_group_must_be_of_all_ranks(forks: Any, tmp_path: Path) -> None:
    forks(a_part_first, str(tmp_path / "meeting"))


def too_early(rank: int, path: str) -> None:
    shmcoll.init()  # a job of one rank
    with pytest.raises(ValueError, match=r"rank 0 of a job of 1.*call dist.init_process_group before shmcoll.init"):
        dist.init_process_group("shmcoll", init_method=f"file://{path}", rank=rank, world_size=2)


def test_a_process_that_has_joined_another_job_is_told(forks: Any, tmp_path: Path) -> None:
    forks(too_early, str(tmp_path / "meeting"))
