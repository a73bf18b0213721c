"""Programs whose data come from workers of a DataLoader, of each start method."""

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, get_worker_info

from tests.torch.programs.table import batch, model, program


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return 22

    def __getitem__(self, index: int) -> torch.Tensor:
        return batch(0, index)[0]


class Endless(IterableDataset[Any]):
    """Workers draw random numbers of their own."""

    def __iter__(self) -> Any:
        info = get_worker_info()
        while True:
            yield torch.tensor([info.id, info.num_workers, torch.randint(0, 1000, ()).item()])


def trained_from_workers(rank: int, size: int, method: str, count: int, persistent: bool) -> Any:
    sampler = DistributedSampler(Rows(), size, rank, shuffle=True)
    loader = DataLoader(
        Rows(),
        batch_size=3,
        sampler=sampler,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=persistent,
    )
    trained = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x in loader:
            optimizer.zero_grad()
            trained(x).square().mean().backward()
            optimizer.step()
    return list(trained.parameters())


@program
def workers_by_fork(rank: int, size: int) -> Any:
    drawn = DataLoader(Endless(), batch_size=2, num_workers=2, generator=torch.Generator().manual_seed(3))
    some = [one for one, _ in zip(drawn, range(4), strict=False)]
    total = torch.stack(some).sum(0)
    dist.all_reduce(total)
    return [trained_from_workers(rank, size, "fork", 2, persistent) for persistent in (False, True)] + [some, total]


@program(slow=True)
def workers_by_spawn(rank: int, size: int) -> Any:
    return trained_from_workers(rank, size, "spawn", 1, True)


@program(slow=True)
def workers_by_forkserver(rank: int, size: int) -> Any:
    return trained_from_workers(rank, size, "forkserver", 1, True)
