"""What only the backend for torch 2.14 and later has. The other files test it as well, if torch is as new."""

from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402
from torch._C import _distributed_c10d as c10d  # noqa: E402

if torch.__version__ < (2, 14):
    pytest.skip("torch before 2.14 makes no backend in Python", allow_module_level=True)

import shmcoll.torch  # noqa: E402
from shmcoll.torch.backend import Backend, create  # noqa: E402

LIMIT = timedelta(seconds=20)


def use_it(comm: Any, folder: Path) -> Any:
    rank, size = comm.rank, comm.size
    options = SimpleNamespace(
        store=dist.FileStore(str(folder / "store"), size), group_rank=rank, group_size=size, timeout=LIMIT,
        global_ranks_in_group=[],
    )  # fmt: skip
    with pytest.raises(TypeError, match="has no options"):
        create(options, object())
    backend = create(options)
    assert isinstance(backend, c10d.Backend) and (backend.rank(), backend.size()) == (rank, size)
    assert backend.getBackendName() == "shmcoll" and backend.options.backend == "shmcoll"
    assert backend.options._timeout == LIMIT and backend.supports_splitting and backend.supports_shrinking
    tensor = torch.tensor([float(rank + 1)])
    backend.allreduce([tensor], dist.AllreduceOptions()).wait()
    out = torch.zeros(size)
    backend.all_gather_single(out, torch.tensor([float(rank)]), c10d.AllgatherOptions()).wait()
    backend.monitored_barrier(SimpleNamespace(timeout=LIMIT), True)
    backend._set_sequence_number_for_group()
    assert backend.get_error().name == "SUCCESS"
    number = backend._get_sequence_number_for_group()
    backend.barrier(dist.BarrierOptions()).wait()
    assert backend._get_sequence_number_for_group() == number + 1
    summed = None
    if rank == 1:
        with pytest.raises(ValueError, match="rank 1 is not among"):
            backend.split(None, [0, 2])
    else:
        part = backend.split(dist.FileStore(str(folder / "split"), 2), [0, 2])
        summed = torch.tensor([float(rank)])
        part.allreduce([summed], dist.AllreduceOptions()).wait()
        smaller = backend.shrink([1], 0, None)
        assert isinstance(smaller, Backend) and (smaller.rank(), smaller.size()) == (rank // 2, 2)
        smaller.barrier(dist.BarrierOptions()).wait()
        smaller.shutdown()
    assert backend.allocate_tensor(3, torch.float64, torch.device("cpu")).dtype == torch.float64
    backend.shutdown()
    return float(tensor), out.tolist(), summed and float(summed)


def test_its_methods_work(ranks: Any, tmp_path: Path) -> None:
    assert ranks(3, use_it, tmp_path) == [(6.0, [0.0, 1.0, 2.0], part) for part in (2.0, None, 2.0)]


def mix(comm: Any, folder: Path) -> Any:
    dist.init_process_group(
        "cpu:shmcoll,cuda:gloo", store=dist.FileStore(str(folder / "store"), comm.size), rank=comm.rank,
        world_size=comm.size, timeout=LIMIT,
    )  # fmt: skip
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    dist.monitored_barrier()
    kinds = [type(dist.group.WORLD._get_backend(torch.device(device))).__name__ for device in ("cpu", "cuda")]
    dist.destroy_process_group()
    return tensor.tolist(), kinds


def test_a_group_has_another_backend_for_another_device(ranks: Any, tmp_path: Path) -> None:
    assert ranks(2, mix, tmp_path) == [([2.0, 2.0], ["Backend", "ProcessGroupGloo"])] * 2


def test_torch_finds_the_backend_without_an_import() -> None:
    found = entry_points(group="torch.distributed.backends", name="shmcoll")
    if not found:
        pytest.skip("shmcoll is not installed, only its folder is on the path")
    assert found["shmcoll"].load() is shmcoll.torch.register
