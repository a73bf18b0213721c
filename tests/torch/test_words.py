"""What errors say to users of torch: their own line, torch's words, and the cause first."""

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as functional  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import shmcoll.torch  # noqa: E402
from tests.support.waiting import until_asleep, until_ended  # noqa: E402

FAULTS: dict[str, Callable[[int], Any]] = {}
HERE = Path(__file__).name


def fault(function: Callable[[int], Any]) -> Callable[[int], Any]:
    FAULTS[function.__name__] = function
    return function


def x(length: int = 4) -> torch.Tensor:
    return torch.ones(length)


def step(model: torch.nn.Module) -> None:
    model(torch.ones(2, 3)).sum().backward()


def late(rank: int) -> None:
    """Come when rank 0 has given up."""
    if rank:
        until_ended(shmcoll.torch.backend_of().comm)


@fault
def late_all_reduce(rank: int) -> None:
    late(rank)
    dist.all_reduce(x())


@fault
def late_asynchronous(rank: int) -> None:
    late(rank)
    dist.all_reduce(x(), async_op=True).wait()


@fault
def late_future(rank: int) -> None:
    late(rank)
    dist.all_reduce(x(), async_op=True).get_future().wait()


@fault
def late_step_of_ddp(rank: int) -> None:
    model = DistributedDataParallel(torch.nn.Linear(3, 4))
    step(model)
    late(rank)
    step(model)


@fault
def late_step_of_fsdp(rank: int) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4))
    fully_shard(model)
    late(rank)
    step(model)


@fault
def late_objects(rank: int) -> None:
    late(rank)
    dist.all_gather_object([None, None], rank)


@fault
def other_collective(rank: int) -> None:
    dist.all_reduce(x()) if rank else dist.broadcast(x(), 0)


@fault
def other_shape_asynchronous(rank: int) -> None:
    dist.all_reduce(x(4 + rank), async_op=True).wait()


@fault
def other_functional(rank: int) -> None:
    functional.all_reduce(x(), "sum", dist.group.WORLD) + 1 if rank else dist.barrier()


@fault
def other_step_of_ddp(rank: int) -> None:
    model = DistributedDataParallel(torch.nn.Linear(3, 4))
    step(model) if rank else dist.barrier()


@fault
def other_constructor_of_ddp(rank: int) -> None:
    DistributedDataParallel(torch.nn.Linear(3, 4)) if rank else dist.broadcast(x(), 0)


def run_all(comm: Any, folder: Path) -> dict[str, str]:
    texts = {}
    for name, function in FAULTS.items():
        limit = timedelta(seconds=0.3 if name.startswith("late") else 60)
        store = dist.FileStore(str(folder / name), comm.size)
        dist.init_process_group("shmcoll", store=store, rank=comm.rank, world_size=comm.size)
        dist.distributed_c10d._set_pg_timeout(limit)
        try:
            function(comm.rank)
            dist.barrier()  # a late rank may find all that it needs for its first call
        except Exception as error:
            texts[name] = str(error)
        dist.destroy_process_group()
    return texts


def test_errors_name_the_line_of_the_user_and_torchs_words(ranks: Any, tmp_path: Path) -> None:
    waiting, other = ranks(2, run_all, tmp_path)
    assert waiting.keys() == other.keys() == FAULTS.keys()
    for name in FAULTS:
        for text in (waiting[name], other[name]):
            assert HERE in text and "distributed_c10d.py" not in text and "comm.timeout" not in text, f"{name}: {text}"
            assert any(
                line.startswith(("CollectiveTimeout: ", "CollectiveMismatch: ")) for line in text.splitlines()
            ) == ("Got the following error" in text), f"{name}: {text}"
        if name.startswith("late"):
            assert "timed out after 0.3 s; rank 1 did not arrive" in waiting[name], f"{name}: {waiting[name]}"
            assert "Pass a larger timeout= to init_process_group or new_group" in waiting[name], waiting[name]
            assert "this rank was too late: rank 0, in " in other[name] and "timed out" not in other[name], other[name]
            assert "had waited 0.3 s for it" in other[name] and other[name].count(HERE) >= 2, other[name]


def two_threads(comm: Any, folder: Path) -> str:
    store = dist.FileStore(str(folder / "threads"), comm.size)
    dist.init_process_group("shmcoll", store=store, rank=comm.rank, world_size=comm.size)
    first, text = threading.Thread(target=dist.all_reduce, args=(x(),)), ""
    if comm.rank == 0:
        first.start()
        until_asleep(shmcoll.torch.backend_of().comm)
        with pytest.raises(shmcoll.CallNotAllowed) as refused:
            dist.all_reduce(x())
        text = str(refused.value)
    comm.barrier()
    if comm.rank:
        first.start()
    first.join()
    dist.destroy_process_group()
    return text


def test_two_threads_in_one_group_are_told_to_have_a_group_each(ranks: Any, tmp_path: Path) -> None:
    """Over gloo they get each other's results."""
    text = ranks(2, two_threads, tmp_path)[0]
    assert "call torch.distributed.new_group() once for each of them" in text and "dup()" not in text, text
