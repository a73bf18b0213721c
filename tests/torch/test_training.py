"""Training with DistributedDataParallel over the backend, beside one process that sees the whole batch."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import shmcoll.torch  # noqa: E402, F401

STEPS = 20


def made(batch_norm: bool) -> torch.nn.Module:
    torch.manual_seed(5)
    layers = [torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.Linear(32, 1)]
    if batch_norm:
        layers.insert(1, torch.nn.BatchNorm1d(32))  # its buffers are broadcast in each step
    return torch.nn.Sequential(*layers).double()


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.Generator().manual_seed(step)
    x = torch.randn(16, 8, generator=drawn, dtype=torch.float64)
    return x, x.sum(1, keepdim=True).tanh()


def train(model: torch.nn.Module, rows: slice) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def loss_of_unseen(model: torch.nn.Module) -> float:
    x, y = batch(STEPS)
    with torch.no_grad():
        return float(torch.nn.functional.mse_loss(model(x), y))


def trained(_comm: Any, store: Path, batch_norm: bool, bucket_mb: float, backend: str = "shmcoll") -> Any:
    rank, size = _comm.rank, _comm.size
    dist.init_process_group(backend, store=dist.FileStore(str(store), size), rank=rank, world_size=size)
    model = DistributedDataParallel(made(batch_norm), bucket_cap_mb=bucket_mb)
    rows = slice(rank * 16 // size, (rank + 1) * 16 // size)
    found = [parameter.numpy() for parameter in train(model, rows)]
    loss = loss_of_unseen(model.module)
    del model  # before the group that its threads use
    dist.destroy_process_group()
    return found, loss


def test_twenty_steps_are_those_of_one_process(ranks: Any, tmp_path: Path) -> None:
    (one, loss), (two, _) = ranks(2, trained, tmp_path / "store", False, 0.004)  # several buckets
    model = made(False)
    for first, second, expected in zip(one, two, train(model, slice(None)), strict=True):
        assert (first == second).all()  # bit for bit
        assert torch.allclose(torch.from_numpy(first), expected, rtol=1e-9, atol=1e-12)
    assert loss == pytest.approx(loss_of_unseen(model), rel=1e-9)


def test_all_ranks_have_the_same_parameters_with_buffers(ranks: Any, tmp_path: Path) -> None:
    (one, _), (two, _) = ranks(2, trained, tmp_path / "store", True, 25)
    assert all((first == second).all() for first, second in zip(one, two, strict=True))


def test_the_loss_is_that_of_gloo(ranks: Any, tmp_path: Path) -> None:
    losses = [ranks(2, trained, tmp_path / backend, False, 25, backend)[0][1] for backend in ("shmcoll", "gloo")]
    assert losses[0] == losses[1]  # a sum of two is the same in any order
