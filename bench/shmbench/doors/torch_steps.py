"""Whole steps of training through each group of torch: a forward pass, a backward pass, and their communication."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from shmbench.doors import Rivals

Step = Callable[[], Any]


def rivals(comm: Any, groups: Mapping[str, Any], quick: bool) -> Iterator[Rivals]:
    """Yield a row for each kind of step.

    Args:
        comm: the communicator of all ranks.
        groups: a torch group of all ranks for each backend.
        quick: whether a tiny model is enough.
    """
    width = 16 if quick else 256
    for name, make in _STEPS.items():
        entries = {backend: make(comm, group, width) for backend, group in groups.items()}
        yield Rivals(f"step of {name}", 0, entries, lambda: None, lambda: 0)


def _layers(width: int, count: int, inner: int) -> Any:
    import torch

    torch.manual_seed(1)
    pairs = [(torch.nn.Linear(width, inner), torch.nn.GELU(), torch.nn.Linear(inner, width)) for _ in range(count)]
    return torch.nn.Sequential(*(layer for pair in pairs for layer in pair))


def _trained(model: Any, x: Any) -> Step:
    def step() -> None:
        model.zero_grad()
        model(x).square().mean().backward()

    return step


def _mesh(group: Any) -> Any:
    from torch.distributed.device_mesh import DeviceMesh

    return DeviceMesh.from_group(group, "cpu")


def _fsdp2(comm: Any, group: Any, width: int) -> Step:
    import torch
    from torch.distributed.fsdp import fully_shard

    model, mesh = _layers(width, 4, 4 * width), _mesh(group)
    for layer in model[::3]:
        fully_shard(layer, mesh=mesh)
    for layer in model[2::3]:
        fully_shard(layer, mesh=mesh)
    return _trained(fully_shard(model, mesh=mesh), torch.ones(32, width))


def _pipeline(kind: str) -> Callable[[Any, Any, int], Step]:
    def make(comm: Any, group: Any, width: int) -> Step:
        import torch
        from torch.distributed import pipelining

        module = _layers(width, 2, 2 * width)
        stage = pipelining.PipelineStage(module, comm.rank, comm.size, torch.device("cpu"), group=group)
        schedule = getattr(pipelining, f"Schedule{kind}")(stage, 4 * comm.size, loss_fn=torch.nn.functional.mse_loss)
        x = torch.ones(16 * comm.size, width)

        def step() -> None:
            module.zero_grad()
            schedule.step(*((x,) if comm.rank == 0 else ()), target=x)

        return step

    return make


def _sequence_parallel(comm: Any, group: Any, width: int) -> Step:
    import torch
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    model = torch.nn.Sequential(torch.nn.LayerNorm(width), _layers(width, 1, 4 * width))
    plan = {
        "0": SequenceParallel(),
        "1": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "1.0": ColwiseParallel(),
        "1.2": RowwiseParallel(output_layouts=Shard(1)),
    }
    x = torch.ones(4, 32, width)
    return _trained(parallelize_module(model, _mesh(group), plan), x)


def _experts(comm: Any, group: Any, width: int) -> Step:
    import torch
    import torch.distributed._functional_collectives as functional

    expert, x = _layers(width, 1, 2 * width), torch.ones(128, width, requires_grad=True)
    counts = torch.full((comm.size,), len(x) // comm.size).tolist()

    def step() -> None:
        expert.zero_grad()
        there = functional.all_to_all_single_autograd(x, counts, counts, group)
        functional.all_to_all_single_autograd(expert(there), counts, counts, group).square().mean().backward()

    return step


_STEPS: dict[str, Callable[[Any, Any, int], Step]] = {
    "FSDP2": _fsdp2,
    "GPipe": _pipeline("GPipe"),
    "1F1B": _pipeline("1F1B"),
    "sequence parallel": _sequence_parallel,
    "experts": _experts,
}
