"""Programs that save a model, and load it with another number of ranks or other parts for each."""

import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from tests.torch.programs.table import batch, model, program, train


def folder_of_all(rank: int) -> str:
    holder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(holder)
    return str(holder[0])


def divided(ranks: int) -> torch.nn.Module:
    return fully_shard(model(), mesh=init_device_mesh("cpu", (ranks,)))


def state_of(trained: torch.nn.Module, optimizer: Any) -> dict[str, Any]:
    layers, state = get_state_dict(trained, optimizer)
    return {"model": layers, "optimizer": state}


def trained_with_adam(trained: torch.nn.Module, rank: int, steps: int = 2) -> Any:
    optimizer = torch.optim.AdamW(trained.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        trained(batch(rank, step)).square().mean().backward()
        optimizer.step()
    return optimizer


@program
def saved_by_all_ranks_and_loaded_by_fewer(rank: int, size: int) -> Any:
    trained = divided(size)
    optimizer = trained_with_adam(trained, rank)
    folder = folder_of_all(rank)
    checkpoint.save(state_of(trained, optimizer), checkpoint_id=folder)
    full = get_state_dict(trained, optimizer, options=StateDictOptions(full_state_dict=True))
    alone = model()  # in one process, without a group
    checkpoint.load({"model": alone.state_dict()}, checkpoint_id=folder, no_dist=True)
    replicated = DistributedDataParallel(model())
    later = trained_with_adam(replicated, rank)
    state = state_of(replicated, later)
    checkpoint.load(state, checkpoint_id=folder)
    set_state_dict(replicated, later, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    output = replicated(batch(rank, 7))
    output.square().mean().backward()
    later.step()
    return [full if rank == 0 else None, list(alone.parameters()), output, list(replicated.parameters())]


@program
def saved_by_some_ranks_and_loaded_by_all(rank: int, size: int) -> Any:
    folder = folder_of_all(rank)
    some = dist.new_group([0, 1])
    whole = torch.arange(42.0).view(7, 6)
    if rank < 2:
        mesh = init_device_mesh("cpu", (2,)) if size == 2 else dist.DeviceMesh.from_group(some, "cpu")
        state = {"x": distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None), "step": 5}
        checkpoint.save(state, checkpoint_id=folder, process_group=some)
    dist.barrier()
    mesh = init_device_mesh("cpu", (size,))
    results: list[Any] = []
    for place in (Shard(0), Shard(1), Replicate()):
        loaded = {"x": distribute_tensor(torch.zeros(7, 6), mesh, [place]), "step": 0}
        checkpoint.load(loaded, checkpoint_id=folder)
        results += [loaded["x"].to_local(), loaded["step"]]
    return results


@program
def saved_meanwhile(rank: int, size: int) -> Any:
    """`async_save` has a thread, and a group of its own that it asks for."""
    trained = divided(size)
    folder = folder_of_all(rank)
    group = dist.new_group()
    writing = checkpoint.async_save({"model": trained.state_dict()}, checkpoint_id=folder, process_group=group)
    train(trained, rank)  # meanwhile
    writing.result()
    later = divided(size)
    state = {"model": later.state_dict()}
    checkpoint.load(state, checkpoint_id=folder)
    return [
        [one.full_tensor() for one in values if isinstance(one, DTensor)]
        for values in (list(trained.parameters()), list(state["model"].values()))
    ]
