"""Programs of parallel training: what DistributedDataParallel offers, hybrid sharding, DTensor, pipelines, experts."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
)
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from tests.torch.programs.table import batch, model, program, train


def values(trained: torch.nn.Module) -> list[torch.Tensor]:
    return [one.full_tensor() if isinstance(one, DTensor) else one for one in trained.parameters()]


@program
def ddp_in_each_way(rank: int, size: int) -> Any:
    results: dict[str, Any] = {}
    for name, options in {
        "usual": {},
        "static": {"static_graph": True},
        "views": {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.0002},
        "unused": {"find_unused_parameters": True},
    }.items():
        torch.manual_seed(3)
        trained = DistributedDataParallel(model(), **options)
        train(trained, rank)
        results[name] = values(trained)
    trained = DistributedDataParallel(model())
    with trained.no_sync():
        trained(batch(rank, 1)).sum().backward()
    trained(batch(rank, 2)).sum().backward()
    return [results, [one.grad for one in trained.parameters()]]


@program
def ddp_with_uneven_inputs(rank: int, size: int) -> Any:
    trained = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(trained.parameters(), torch.optim.Adam, lr=0.1)
    with Join([trained, optimizer]):
        for step in range(2 + 2 * rank):
            trained(batch(rank, step)).square().mean().backward()
            optimizer.step()
    optimizer.consolidate_state_dict()
    state = optimizer.state_dict()["state"] if rank == 0 else None
    return [values(trained), state]


@program
def averaged_models(rank: int, size: int) -> Any:
    trained = model()
    averager = PeriodicModelAverager(period=2, warmup_steps=1)
    for step in range(5):
        train(trained, rank + step, 1)
        averager.average_parameters(trained.parameters())
    return values(trained)


@program
def statistics_of_all_ranks(rank: int, size: int) -> Any:
    """Gradients through collectives: batch normalisation as people write it by hand on CPUs."""
    x = batch(rank, 0).requires_grad_()
    total = torch.distributed.nn.functional.all_reduce(x.mean(0)) / size
    (torch.cat(torch.distributed.nn.functional.all_gather(x - total)) ** 3).sum().backward()
    return [total, x.grad]


def meshes(size: int) -> Any:
    return init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("outer", "inner"))


@program
def hybrid_sharding(rank: int, size: int) -> Any:
    results = []
    for policy in (MixedPrecisionPolicy(), MixedPrecisionPolicy(torch.bfloat16, torch.float32)):
        torch.manual_seed(3)
        trained = model()
        for i in (0, 2):
            fully_shard(trained[i], mesh=meshes(size), mp_policy=policy, reshard_after_forward=i == 0)
        fully_shard(trained, mesh=meshes(size), mp_policy=policy)
        train(trained, rank)
        results.append(values(trained))
    return results


@program
def tensors_and_data_in_parallel(rank: int, size: int) -> Any:
    mesh = meshes(size)
    trained = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 6))
    parallelize_module(trained, mesh["inner"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(trained, mesh=mesh["outer"])
    train(trained, mesh.get_coordinate()[0])
    return values(trained)


@program
def sequences_in_parallel(rank: int, size: int) -> Any:
    mesh = init_device_mesh("cpu", (size,))
    trained = torch.nn.Sequential(torch.nn.LayerNorm(6), torch.nn.Linear(6, 8), torch.nn.Linear(8, 6))
    plan = {
        "0": SequenceParallel(),
        "1": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "2": RowwiseParallel(input_layouts=Shard(-1), output_layouts=Shard(1)),
    }
    parallelize_module(trained, mesh, plan)
    parallelize_module(trained, mesh, {"1": ColwiseParallel()})
    x = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(1))
    part = x.chunk(size, 1)[rank].clone().requires_grad_()
    out = trained(part)
    out.square().sum().backward()
    return [out, part.grad, [one.grad.full_tensor() for one in trained.parameters()]]


@program
def distributed_tensors(rank: int, size: int) -> Any:
    mesh, square = init_device_mesh("cpu", (size,)), meshes(size)
    whole = torch.arange(35.0).view(7, 5)  # no multiple of the ranks
    results: list[Any] = []
    ways = [Shard(0), Shard(1), Replicate()]
    for first in ways:
        for second in ways:
            moved = distribute_tensor(whole, mesh, [first]).redistribute(mesh, [second])
            results.append([moved.to_local(), moved.full_tensor()])
    partial = DTensor.from_local(whole + rank, mesh, [Partial()])
    results += [partial.redistribute(mesh, [way]).to_local() for way in ways]
    both = distribute_tensor(whole, square, [Shard(0), Shard(1)])
    product = both @ distribute_tensor(whole.t().contiguous(), square, [Replicate(), Shard(0)])
    results += [product.full_tensor(), (both.sum() + both.max()).full_tensor(), both.argmax().full_tensor()]
    return results


def stages(rank: int, size: int, each: int) -> list[PipelineStage]:
    torch.manual_seed(2)
    layers = [torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh()) for _ in range(size * each)]
    places = range(rank, size * each, size)
    return [PipelineStage(layers[i], i, size * each, torch.device("cpu")) for i in places]


@program
def pipelines(rank: int, size: int) -> Any:
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(1))
    results: dict[str, Any] = {}
    for kind, each in (
        (ScheduleGPipe, 1),
        (Schedule1F1B, 1),
        (ScheduleLoopedBFS, 2),
        (ScheduleInterleaved1F1B, 2),
        (ScheduleInterleavedZeroBubble, 2),
    ):
        mine = stages(rank, size, each)
        schedule = kind(mine if each > 1 else mine[0], 2 * size, loss_fn=torch.nn.functional.mse_loss)
        losses: list[torch.Tensor] = []
        first = (x,) if rank == 0 else ()
        out = schedule.step(*first, **({"target": x, "losses": losses} if rank == size - 1 else {}))
        gradients = [[one.grad for one in stage.submod.parameters()] for stage in mine]
        results[kind.__name__] = [losses, gradients, out if rank == size - 1 else None]
    return results


@program
def experts(rank: int, size: int) -> Any:
    """Each rank has an expert; tokens go to those that a router chooses, and come back, with gradients."""
    torch.manual_seed(4)
    router, mine = torch.nn.Linear(6, size), [torch.nn.Linear(6, 6) for _ in range(size)][rank]
    x = batch(rank, 3).requires_grad_()
    chosen = router(x).argmax(1)
    order = chosen.argsort(stable=True)
    sent = torch.bincount(chosen, minlength=size)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    counts = received.tolist(), sent.tolist()
    there = functional.all_to_all_single_autograd(x[order], *counts, dist.group.WORLD)
    back = functional.all_to_all_single_autograd(mine(there), *counts[::-1], dist.group.WORLD)
    out = torch.zeros_like(x).index_copy(0, order, back)
    out.square().sum().backward()
    return [out, x.grad, [one.grad for one in mine.parameters()]]


@program
def attention_in_a_ring_and_by_heads(rank: int, size: int) -> Any:
    drawn = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(1, 4, 8 * size, 4, generator=drawn) for _ in range(3))
    mine = [one.chunk(size, 2)[rank].contiguous() for one in (q, k, v)]
    keys, scores, sums = torch.stack(mine[1:]), [], []
    for _ in range(size):
        scores.append(mine[0] @ keys[0].transpose(-1, -2) / 2)
        sums.append(keys[1].clone())
        following = torch.empty_like(keys)
        right, left = (rank + 1) % size, (rank - 1) % size
        for work in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, keys, right), dist.P2POp(dist.irecv, following, left)]
        ):
            work.wait()
        keys = following
    ring = torch.cat(scores, -1).softmax(-1) @ torch.cat(sums, 2)

    def exchanged(x: torch.Tensor, apart: int, together: int) -> torch.Tensor:
        parts = [one.contiguous() for one in x.chunk(size, apart)]
        got = [torch.empty_like(one) for one in parts]
        dist.all_to_all(got, parts)
        return torch.cat(got, together)

    by_heads: Callable[[torch.Tensor], torch.Tensor] = lambda x: exchanged(x, 1, 2)  # noqa: E731
    ulysses = torch.nn.functional.scaled_dot_product_attention(*map(by_heads, mine))
    return [ring, exchanged(ulysses, 2, 1)]
