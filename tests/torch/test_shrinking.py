"""Going on without some ranks: `shmcoll.torch.shrink_group`."""

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402

import shmcoll.torch  # noqa: E402


def begin(comm: Any, store: Path) -> int:
    dist.init_process_group(
        "shmcoll",
        store=dist.FileStore(str(store), comm.size), rank=comm.rank, world_size=comm.size,
        timeout=timedelta(seconds=20),
    )  # fmt: skip
    return int(comm.rank)


def summed(group: Any = None) -> float:
    tensor = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(tensor, group=group)
    return float(tensor)


def a_rank_dies(comm: Any, store: Path) -> Any:
    rank = begin(comm, store)
    beside = dist.new_group()
    before = shmcoll.torch.backend_of().get_error().name
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError, match="rank 1"):
        dist.barrier()
    after = shmcoll.torch.backend_of().get_error().name
    group = shmcoll.torch.shrink_group([1])
    assert group is dist.group.WORLD and beside not in dist.distributed_c10d._world.pg_map
    places = dist.get_rank(), dist.get_world_size(), dist.get_process_group_ranks(group), group.group_desc
    total = summed()
    half = dist.new_group([0])
    alone = summed(half) if dist.get_rank() == 0 else None
    dist.barrier()
    dist.destroy_process_group()
    assert not dist.is_initialized()
    return (before, after), places, total, alone


def test_survivors_go_on_with_the_default_group(ranks: Any, tmp_path: Path) -> None:
    first, dead, last = ranks.outcomes(3, a_rank_dies, tmp_path / "store")
    assert dead.status == -signal.SIGKILL
    for place, outcome in enumerate((first, last)):
        assert outcome.error is None, outcome.traceback
        errors, places, total, alone = outcome.value
        assert errors == ("SUCCESS", "REMOTE_ERROR")
        assert places[:3] == (place, 2, [0, 2]) and ":shr" in places[3]
        assert total == 3.0 and alone == (1.0 if place == 0 else None)


def a_group_shrinks(comm: Any, store: Path, flags: int) -> Any:
    rank = begin(comm, store)
    group = dist.new_group()
    for bad, error in (([], ValueError), ([9], ValueError), ([0, 0], ValueError), ([rank], RuntimeError)):
        with pytest.raises(error):
            shmcoll.torch.shrink_group(bad, group)
    if rank == 1:
        with pytest.raises(RuntimeError, match="exclusion list"):
            shmcoll.torch.shrink_group([1], group)
        total = None
    else:
        smaller = shmcoll.torch.shrink_group([1], group, shrink_flags=flags)
        total = summed(smaller)
        assert dist.get_process_group_ranks(smaller) == [0, 2]
    whole = summed()
    with pytest.raises(TypeError, match="must be one of the backend"):
        shmcoll.torch.shrink_group([1], 7)
    dist.destroy_process_group()
    return total, whole


@pytest.mark.parametrize("flags", [0, 1])
def test_a_group_shrinks_without_a_failure(ranks: Any, tmp_path: Path, flags: int) -> None:
    assert ranks(3, a_group_shrinks, tmp_path / "store", flags) == [(4.0, 6.0), (None, 6.0), (4.0, 6.0)]
