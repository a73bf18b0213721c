"""`torch.compile` of a step with collectives: functional ones, and those of `torch.distributed`."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as functional  # noqa: E402

import shmcoll.torch  # noqa: E402, F401

pytestmark = pytest.mark.slow  # the compiler takes 20 s to begin


def compiled_steps(comm: Any, store: Path) -> list[Any]:
    dist.init_process_group(
        "shmcoll", store=dist.FileStore(str(store), comm.size), rank=comm.rank, world_size=comm.size
    )
    world = dist.group.WORLD

    def step(x: torch.Tensor) -> torch.Tensor:
        total = functional.all_reduce(x * 2, "sum", world)
        gathered = functional.all_gather_tensor(total + 1, 0, world)
        return functional.reduce_scatter_tensor(gathered, "sum", 0, world) / comm.size

    def in_place(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        dist.all_reduce(y)
        return y * 2

    x = torch.arange(4.0) + comm.rank
    whole = torch.compile(step, backend="aot_eager", fullgraph=True)
    results = [whole(x).tolist() for _ in range(2)] + [torch.compile(in_place, backend="aot_eager")(x).tolist()]
    dist.destroy_process_group()
    return results


def test_a_compiled_step_has_the_same_results(ranks: Any, tmp_path: Path) -> None:
    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(1))  # once, before the ranks are forked
    step = [4.0 * i + 3.0 for i in range(4)]
    in_place = [4.0 * i + 6.0 for i in range(4)]
    assert ranks(2, compiled_steps, tmp_path / "store") == [[step, step, in_place]] * 2


def every_call(comm: Any, store: Path) -> list[Any]:
    dist.init_process_group(
        "shmcoll", store=dist.FileStore(str(store), comm.size), rank=comm.rank, world_size=comm.size
    )

    def reduced(x: torch.Tensor) -> torch.Tensor:
        work = dist.all_reduce(x, async_op=True)
        assert work
        work.wait()
        dist.reduce(x, 0)
        return x + 1

    def moved(x: torch.Tensor) -> torch.Tensor:
        dist.broadcast(x, 0)
        parts = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(parts, x + dist.get_rank())
        return parts[0] + parts[1]

    def sent(x: torch.Tensor) -> torch.Tensor:
        if comm.rank == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)
        dist.barrier()
        return x + 1

    steps = [torch.compile(one, backend="aot_eager")(torch.ones(1) * (comm.rank + 1)) for one in (reduced, moved, sent)]
    layer = torch.compile(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1)), backend="aot_eager")
    layer(torch.ones(1, 1) + comm.rank).sum().backward()
    gradients = [one.grad.item() for one in layer.parameters()]
    dist.destroy_process_group()
    return [*(step.item() for step in steps), *gradients]


@pytest.mark.filterwarnings("ignore:Dynamo does not know")  # torch's options are in C++: it breaks the graph there
def test_every_call_works_in_a_compiled_step(ranks: Any, tmp_path: Path) -> None:
    """It breaks the graph, as a call of gloo does."""
    first, second = ranks(2, every_call, tmp_path / "store")
    assert first == [7.0, 3.0, 2.0, 1.5, 1.0]
    assert second == [4.0, 3.0, 2.0, 1.5, 1.0]
