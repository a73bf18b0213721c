"""Programs whose steps are compiled. A call breaks the graph where it does over gloo: results count the graphs."""

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch._dynamo
import torch._inductor.config
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._dynamo.backends.registry import lookup_backend
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from tests.torch.programs.table import batch, model, program, train


class Counting:
    """A backend of the compiler that counts its graphs."""

    def __init__(self, name: str = "eager"):
        self.graphs, self._make = 0, lookup_backend(name)
        torch._dynamo.reset()

    def __call__(self, graph: Any, inputs: Any, **options: Any) -> Any:
        self.graphs += 1
        return self._make(graph, inputs, **options)


def result_of(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a compiled function returns, how many graphs it has, and whether one is enough."""
    counting = Counting()
    result = torch.compile(call, backend=counting)(*arguments)
    graphs = counting.graphs
    if graphs > 1:
        return [result, graphs]
    counting = Counting()
    try:
        torch.compile(call, backend=counting, fullgraph=True)(*arguments)
    except torch._dynamo.exc.Unsupported:
        return [result, graphs]
    return [result, graphs, "a whole graph"]


def waited(work: Any) -> None:
    if work is not None:
        work.wait()


def steps(rank: int, size: int) -> dict[str, Callable[[torch.Tensor, bool], Any]]:
    """Each computes before and after its call, which is asynchronous or not."""
    right, left = (rank + 1) % size, (rank - 1) % size

    def rows(x: torch.Tensor) -> list[torch.Tensor]:
        return [x + i for i in range(size)]

    def all_reduce(x, later):
        waited(dist.all_reduce(x * 2, async_op=later))
        y = x + 1
        waited(dist.all_reduce(y, dist.ReduceOp.MAX, dist.group.WORLD, later))
        return y + 1

    def reduce(x, later):
        waited(dist.reduce(x, 0, async_op=later))
        return x + 1 if rank == 0 else x * 0

    def broadcast(x, later):
        waited(dist.broadcast(x, 1, async_op=later))
        return x + 1

    def all_gather(x, later):
        out = rows(x)
        waited(dist.all_gather(out, x, async_op=later))
        return torch.cat(out)

    def all_gather_into_tensor(x, later):
        out = torch.cat(rows(x))
        waited(dist.all_gather_into_tensor(out, x, async_op=later))
        return out + 1

    def gather(x, later):
        out = rows(x) if rank == 0 else None
        waited(dist.gather(x, out, 0, async_op=later))
        return torch.cat(out or [x]) + 1

    def scatter(x, later):
        out = x + 1
        waited(dist.scatter(out, rows(x) if rank == 0 else None, 0, async_op=later))
        return out + 1

    def reduce_scatter(x, later):
        out = x + 1
        waited(dist.reduce_scatter(out, rows(x), async_op=later))
        return out + 1

    def reduce_scatter_tensor(x, later):
        out = x + 1
        waited(dist.reduce_scatter_tensor(out, torch.cat(rows(x)), async_op=later))
        return out + 1

    def all_to_all(x, later):
        out = rows(x)
        waited(dist.all_to_all(out, rows(x * 2), async_op=later))
        return torch.cat(out)

    def all_to_all_single(x, later):
        y = torch.cat(rows(x))
        out = y + 1
        waited(dist.all_to_all_single(out, y, async_op=later))
        return out + 1

    def barrier(x, later):
        y = x + 1
        waited(dist.barrier(async_op=later))
        return y + 1

    def messages(x, later):
        y = x + 1
        if later:
            for work in (dist.isend(x, right), dist.irecv(y, left)):
                waited(work)
        elif rank == 0:
            dist.send(x, right)
            dist.recv(y, left)
        else:
            dist.recv(y, left)
            dist.send(x, right)
        return y + 1

    def batch_isend_irecv(x, later):
        y = x + 1
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)]):
            waited(work)
        return y + 1

    def all_reduce_coalesced(x, later):
        y = x + 1
        waited(dist.all_reduce_coalesced([x, y], async_op=later))
        return x + y

    def handles(x, later):
        work = dist.all_reduce(x, async_op=True)
        waited(work)
        return work.result()[0] + int(work.is_completed()) + int(work.is_success()) + int(work.exception() is None)

    def futures(x, later):
        future = dist.all_reduce(x, async_op=True).get_future()
        return future.wait()[0] + 1

    def groups(x, later):
        some = dist.new_group([0, 1])
        if rank < 2:
            waited(dist.all_reduce(x, group=some, async_op=later))
        return x + dist.get_world_size() + dist.get_rank()

    def of_functions(x, later):
        y = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
        y = functional.broadcast(y, 0, dist.group.WORLD) + functional.all_gather_tensor(x, 0, dist.group.WORLD)[:4]
        y = functional.all_to_all_single(torch.cat(rows(y)), None, None, dist.group.WORLD)
        return functional.reduce_scatter_tensor(y, "sum", 0, dist.group.WORLD) / size

    found = dict(locals())
    return {name: found[name] for name in found if name not in ("rank", "size", "right", "left", "rows")}


def results_of(names: Sequence[str], rank: int, size: int) -> Any:
    made = steps(rank, size)
    return {
        name: [result_of(made[name], torch.arange(4.0) + rank, later) for later in (False, True)]
        for name in names or made
    }


@program
def compiled_calls(rank: int, size: int) -> Any:
    return results_of(("all_reduce", "handles"), rank, size)


@program(slow=True)
def all_compiled_calls(rank: int, size: int) -> Any:
    return results_of((), rank, size)


def divided(layers: torch.nn.Module) -> torch.nn.Module:
    for i in (0, 2):
        fully_shard(layers[i])
    return fully_shard(layers)


def in_columns_and_rows(layers: torch.nn.Module, size: int) -> torch.nn.Module:
    mesh = init_device_mesh("cpu", (size,))
    return parallelize_module(layers, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel(use_local_output=True)})


@program
def compiled_models(rank: int, size: int, names: Sequence[str] = ("eager",)) -> Any:
    parallel, sharded = DistributedDataParallel, FullyShardedDataParallel
    models: dict[str, Callable[[Any], torch.nn.Module]] = {
        "of DDP": lambda compile: compile(parallel(model())),
        "within DDP": lambda compile: parallel(compile(model())),
        "of static DDP": lambda compile: compile(parallel(model(), static_graph=True)),
        "of FSDP1": lambda compile: compile(sharded(model(), device_id=torch.device("cpu"), use_orig_params=True)),
        "of FSDP2": lambda compile: compile(divided(model())),
        "of tensor parallel": lambda compile: compile(in_columns_and_rows(model(), size)),
    }
    results = {}
    for compiler in names:
        for name, made in models.items():
            torch.manual_seed(3)
            counting = Counting(compiler)
            trained = made(partial(torch.compile, backend=counting))
            train(trained, 0 if name == "of tensor parallel" else rank)
            states = [getattr(one, "to_local", one.detach)() for one in trained.parameters()]
            results[compiler, name] = [states, counting.graphs]
    return results


@program(slow=True)
def a_compiled_step(rank: int, size: int) -> Any:
    """The forward pass, the backward pass with its collectives, and the optimizer."""
    trained = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    counting = Counting()

    @torch.compile(backend=counting)
    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = trained(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return [[step(batch(rank, i)) for i in range(3)], list(trained.parameters()), counting.graphs]


@program(slow=True)
def models_by_other_compilers(rank: int, size: int) -> Any:
    """Inductor too, where there is a compiler of C++."""
    with torch._inductor.config.patch(compile_threads=1):
        return compiled_models(rank, size, ("aot_eager", "inductor") if shutil.which("g++") else ("aot_eager",))
