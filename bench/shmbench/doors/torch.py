"""The operations of the `torch.distributed` backend. torch is imported only where they are measured."""

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shmbench.doors import SPOILT, Call, Rivals, torch_inference, torch_steps

SMALL, MIDDLE, LARGE = 8, 256 << 10, 64 << 20
PARAMETERS = 5_000_000


def calls(comm: Any) -> Iterator[Call]:
    import torch
    import torch.distributed as dist

    import shmcoll.torch

    group = _groups(comm)["shmcoll"]
    own, size = shmcoll.torch.backend_of(group).comm, comm.size
    x, y = torch.ones(2), torch.zeros(2 * size)
    out, blocks = torch.zeros(2), torch.arange(2.0 * size)
    arrays = [x.numpy(), y.numpy(), out.numpy(), blocks.numpy()]

    yield Call(
        "all_reduce",
        lambda: own.all_reduce(arrays[0], "max", out=arrays[0]),
        partial(dist.all_reduce, x, dist.ReduceOp.MAX, group=group),
        ([], []),  # in place
    )
    yield Call(
        "all_gather_single",
        lambda: own.all_gather(arrays[0], out=arrays[1]),
        partial(dist.all_gather_single, y, x, group=group),
        (arrays[1], y),
    )
    yield Call(
        "reduce_scatter_single",
        lambda: own.reduce_scatter(arrays[3], "sum", out=arrays[2]),
        partial(dist.reduce_scatter_single, out, blocks, group=group),
        (arrays[2], out),
    )
    yield Call(
        "all_to_all_single",
        lambda: own.all_to_all(arrays[3], out=arrays[1]),
        partial(dist.all_to_all_single, y, blocks, group=group),
        (arrays[1], y),
    )
    broadcast = partial(dist.broadcast, x, 0, group=group)
    yield Call("broadcast", lambda: own.broadcast(arrays[0], 0), broadcast, ([], []))
    yield Call("barrier", own.barrier, partial(dist.barrier, group=group), ([], []))
    dist.destroy_process_group()


def rivals(comm: Any, quick: bool) -> Iterator[Rivals]:
    import torch
    import torch.distributed as dist

    import shmcoll.torch

    groups = _groups(comm)
    own = shmcoll.torch.backend_of(groups["shmcoll"]).comm

    def through_torch(call: Any, *arguments: Any) -> dict[str, Any]:
        return {name: partial(call, *arguments, group=group) for name, group in groups.items()}

    def reducing(x: Any) -> tuple[Any, Any]:
        """Return what writes the input of an all_reduce in place, and what counts wrong elements."""
        inputs = [torch.arange(x.numel(), dtype=torch.float32).remainder_(5).add_(rank) for rank in range(comm.size)]
        mine, expected = inputs[comm.rank], torch.stack(inputs).sum(0)
        return partial(x.copy_, mine), lambda: int((x != expected).sum())

    def exchanging(x: Any, y: Any) -> tuple[Any, Any]:
        """Return the same for an all_to_all_single from x to y."""
        inputs = [torch.arange(x.numel(), dtype=torch.float32).remainder_(5).add_(rank) for rank in range(comm.size)]
        x.copy_(inputs[comm.rank])
        expected = torch.cat([one.chunk(comm.size)[comm.rank] for one in inputs])
        return partial(y.fill_, SPOILT), lambda: int((y != expected).sum())

    large = MIDDLE if quick else LARGE
    for size in (SMALL, MIDDLE, large):
        x = torch.empty(size // 4)
        array = x.numpy()
        entries = {"native": partial(own.all_reduce, array, out=array)} | through_torch(dist.all_reduce, x)
        yield Rivals("all_reduce", size, entries, *reducing(x))
    shared = shmcoll.torch.empty(large // 4, group=groups["shmcoll"])
    array = shared.numpy()
    entries = {"native": partial(own.all_reduce, array, out=array)} | through_torch(dist.all_reduce, shared)
    yield Rivals("all_reduce of shmcoll.torch.empty", large, entries, *reducing(shared))
    del shared, array, entries

    x = torch.empty(SMALL // 4)
    waited = {name: partial(_waited, dist.all_reduce, x, group) for name, group in groups.items()}
    yield Rivals("all_reduce(async_op=True).wait()", SMALL, waited, *reducing(x))

    x, y = torch.empty(MIDDLE // 4), torch.empty(MIDDLE // 4)
    arrays = x.numpy(), y.numpy()
    entries = {"native": partial(own.all_to_all, arrays[0], out=arrays[1])} | through_torch(
        dist.all_to_all_single, y, x
    )
    yield Rivals("all_to_all_single", MIDDLE, entries, *exchanging(x, y))
    entries = {"native": own.barrier} | through_torch(dist.barrier)
    yield Rivals("barrier", 0, entries, lambda: None, lambda: 0)

    parameters = PARAMETERS // 100 if quick else PARAMETERS
    # the native one is the step without communication
    steps = {"native": _step(_silent(_parallel(parameters, groups["shmcoll"])))} | {
        name: _step(_parallel(parameters, group)) for name, group in groups.items()
    }
    yield Rivals(f"step of DDP, {parameters:,} parameters", 0, steps, lambda: None, lambda: 0)
    yield from torch_steps.rivals(comm, groups, quick)
    yield from torch_inference.rivals(comm, groups, quick)
    dist.destroy_process_group()


def _groups(comm: Any) -> dict[str, Any]:
    """Return a torch group of all ranks for each backend."""
    import torch
    import torch.distributed as dist

    import shmcoll.torch  # noqa: F401  # registers the backend

    torch.set_num_threads(1)
    folder = comm.broadcast_object(tempfile.mkdtemp() if comm.rank == 0 else None)
    store = dist.FileStore(str(Path(folder) / "store"), comm.size)
    dist.init_process_group("gloo", store=store, rank=comm.rank, world_size=comm.size)
    groups = {"gloo": dist.group.WORLD, "shmcoll": dist.new_group(backend="shmcoll")}
    dist.barrier()
    if comm.rank == 0:
        shutil.rmtree(folder)  # the ranks have met
    return groups


def _waited(call: Any, x: Any, group: Any) -> None:
    call(x, group=group, async_op=True).wait()


def _model(parameters: int) -> Any:
    import torch

    width = int(np.sqrt(parameters / 5))
    return torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(5)])


def _parallel(parameters: int, group: Any) -> Any:
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(_model(parameters), process_group=group)


def _silent(model: Any) -> Any:
    """Make a DistributedDataParallel send nothing. It fills and reads its buckets all the same."""
    import torch

    def hook(_state, bucket):  # without annotations: torch refuses all but its own
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    model.register_comm_hook(None, hook)
    return model


def _step(model: Any) -> Any:
    import torch

    x = torch.ones(1, next(model.parameters()).shape[1])

    def step() -> None:
        model(x).sum().backward()

    return step
