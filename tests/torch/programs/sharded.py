"""Programs that free and resize the memory of tensors after collectives: FSDP1 first."""

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.fsdp import (
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)

from tests.torch.programs.table import batch, model, program, train

CPU = torch.device("cpu")


def sharded(strategy: ShardingStrategy, **options: Any) -> FullyShardedDataParallel:
    layers = model()
    for i in (0, 2):
        layers[i] = FullyShardedDataParallel(layers[i], sharding_strategy=strategy, device_id=CPU, **options)
    return FullyShardedDataParallel(layers, sharding_strategy=strategy, device_id=CPU, **options)


@program
def fsdp1_in_each_strategy(rank: int, size: int) -> Any:
    results = []
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        for flat in (True, False):
            trained = sharded(strategy, use_orig_params=not flat)
            train(trained, rank)
            with FullyShardedDataParallel.summon_full_params(trained):
                results.append([one.clone() for one in trained.parameters()])
    return results


@program
def fsdp1_in_lower_precision(rank: int, size: int) -> Any:
    half = MixedPrecision(torch.bfloat16, torch.float32, torch.float32)
    trained = sharded(ShardingStrategy.FULL_SHARD, mixed_precision=half)
    train(trained, rank)
    trained.clip_grad_norm_(0.5)
    return trained(batch(rank, 9))


@program
def fsdp1_saves_and_loads(rank: int, size: int) -> Any:
    trained, later = sharded(ShardingStrategy.FULL_SHARD), sharded(ShardingStrategy.FULL_SHARD)
    train(trained, rank)
    with FullyShardedDataParallel.state_dict_type(
        trained, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=False)
    ):
        state = trained.state_dict()
    with FullyShardedDataParallel.state_dict_type(later, StateDictType.FULL_STATE_DICT):
        later.load_state_dict(state)
    return [state, later(batch(rank, 9))]


@program
def storages_are_resized_after_each_collective(rank: int, size: int) -> Any:
    def given(length: int = 4) -> torch.Tensor:
        return torch.arange(float(length)) + rank

    def parts() -> list[torch.Tensor]:
        return [torch.zeros(4) for _ in range(size)]

    def sent(x: torch.Tensor, y: torch.Tensor) -> None:
        right, left = (rank + 1) % size, (rank - 1) % size
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)]):
            work.wait()

    calls = {
        "all_reduce": lambda x, y: dist.all_reduce(x),
        "asynchronous": lambda x, y: dist.all_reduce(x, async_op=True).wait(),
        "reduce": lambda x, y: dist.reduce(x, 0),
        "broadcast": lambda x, y: dist.broadcast(x, 0),
        "all_gather": lambda x, y: dist.all_gather(parts(), x),
        "all_gather_into_tensor": lambda x, y: dist.all_gather_into_tensor(y, x),
        "reduce_scatter_tensor": lambda x, y: dist.reduce_scatter_tensor(x, y),
        "gather": lambda x, y: dist.gather(x, parts() if rank == 0 else None),
        "scatter": lambda x, y: dist.scatter(x, parts() if rank == 0 else None),
        "all_to_all_single": lambda x, y: dist.all_to_all_single(y, y.clone()),
        "messages": lambda x, y: sent(y, x.resize_(4 * size)),
        "bfloat16": lambda x, y: dist.all_reduce(x.untyped_storage() and x.view(torch.int32).view(torch.bfloat16)),
    }
    results = []
    for name, call in calls.items():
        tensors = given(), given(4 * size)
        call(*tensors)
        for tensor in tensors:
            results.append((name, tensor.clone()) if name != "reduce" or rank == 0 else name)
            storage = tensor.untyped_storage()
            storage.resize_(0)
            storage.resize_(800)
    return results


@program
def results_of_functional_collectives_in_place(rank: int, size: int) -> Any:
    total = functional.all_reduce(torch.ones(3) + rank, "sum", dist.group.WORLD)
    dist.all_reduce(total)  # no thread has waited for it
    return [total + 0]
