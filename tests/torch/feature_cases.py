"""What torch builds on a backend, as further cases of the table in `cases.py`: memory, meshes, checkpoints."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import shmcoll
import shmcoll.torch
from tests.torch.cases import FLOATS, INTEGERS, Op, case, given, reduced, same


def folder() -> str:
    """Return a new folder, the same on all ranks."""
    shared = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(shared, 0)
    return str(shared[0])


@case
def tensors_in_shared_memory(rank: int, size: int) -> None:
    backend = shmcoll.torch.backend_of()
    comm = backend.comm
    for dtype in (*FLOATS, *INTEGERS, torch.bool, torch.complex64, torch.float8_e5m2):
        tensor = shmcoll.torch.empty(2, 3, dtype=dtype)
        assert tensor.dtype == dtype and tensor.shape == (2, 3) and tensor.is_contiguous()
        assert comm.is_shared(tensor.view(torch.uint8).numpy()) and not tensor.view(torch.uint8).any()
    for shape in ((0,), (), (7,), (40_000,)):
        tensor = shmcoll.torch.empty(shape)
        assert tensor.dtype == torch.get_default_dtype()
        tensor.copy_(given(rank, shape))
        dist.all_reduce(tensor)
        same(tensor, reduced(Op.SUM, [given(r, shape) for r in range(size)]))
    tensor = shmcoll.torch.empty(40_000, dtype=torch.bfloat16)
    tensor[1:].copy_(given(rank, (39_999,), torch.bfloat16))
    dist.broadcast(tensor[1:], size - 1)  # a part of it
    same(tensor[1:], given(size - 1, (39_999,), torch.bfloat16))
    alone = dist.new_group([0])
    if rank == 0:
        assert comm.is_shared(shmcoll.torch.empty([3], group=alone).numpy())
    for error, text, call in (
        (TypeError, "must be one of the backend", lambda: shmcoll.torch.empty(3, group=7)),
        (TypeError, "shape", lambda: shmcoll.torch.empty("x")),
        (ValueError, "negative", lambda: shmcoll.torch.empty(-1)),
        (TypeError, "dtype", lambda: shmcoll.torch.empty(3, dtype=torch.float8_e8m0fnu)),
        (dist.DistBackendError, "the heap is full", lambda: shmcoll.torch.empty(1 << 45)),
        (shmcoll.ArenaError, "the heap is full", lambda: shmcoll.torch.empty(1 << 45)),
        (
            TypeError,
            "tensors of the CPU",
            lambda: shmcoll.torch.backend_of().allocate_tensor(3, device=torch.device("cuda")),
        ),
    ):
        with pytest.raises(error, match=text):
            call()


@case
def sharded_training_with_memory_of_the_group(rank: int, size: int) -> None:
    torch.manual_seed(3)
    whole = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 2)).double()
    sharded = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 2)).double()
    sharded.load_state_dict(whole.state_dict())
    mesh = init_device_mesh("cpu", (size,))
    for layer in (sharded[0], sharded[2], sharded):
        fully_shard(layer, mesh=mesh).set_allocate_memory_from_process_group_for_comm(True)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (whole, sharded)]
    for step in range(3):
        x = given(step, (4 * size, 6), torch.float64)
        whole(x).square().mean().backward()
        sharded(x[4 * rank : 4 * rank + 4]).square().mean().backward()  # FSDP2 averages the gradients
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for one, part in zip(whole.parameters(), sharded.parameters(), strict=True):
        assert torch.allclose(part.full_tensor(), one, rtol=1e-9, atol=1e-12)


@case
def layers_divided_between_ranks(rank: int, size: int) -> None:
    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Linear(4, 12), torch.nn.Linear(12, 4)).double()
    x = given(0, (5, 4), torch.float64)
    expected = model(x).detach()
    parallelize_module(model, init_device_mesh("cpu", (size,)), {"0": ColwiseParallel(), "1": RowwiseParallel()})
    assert torch.allclose(model(x), expected)


@case
def a_mesh_of_two_dimensions(rank: int, size: int) -> None:
    if size % 2:
        return
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "columns"))
    row, column = mesh.get_group("rows"), mesh.get_group("columns")
    assert dist.get_backend(row) == "shmcoll" and isinstance(dist.get_process_group_ranks(column), list)
    tensor = torch.tensor([rank])
    dist.all_reduce(tensor, group=row)
    assert tensor.item() == sum(dist.get_process_group_ranks(row))
    tensor = torch.tensor([rank])
    dist.all_reduce(tensor, group=column)
    assert tensor.item() == sum(dist.get_process_group_ranks(column))


@case
def checkpoints(rank: int, size: int) -> None:
    path = folder()
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(6.0 * size).reshape(2 * size, 3)
    for save, name in ((checkpoint.save, "now"), (checkpoint.async_save, "later")):
        shard = torch.distributed.tensor.distribute_tensor(whole + 1, mesh, [torch.distributed.tensor.Shard(0)])
        saving = save({"shard": shard, "step": 7}, checkpoint_id=Path(path) / name)
        if hasattr(saving, "result"):
            saving.result()
        empty = torch.distributed.tensor.distribute_tensor(0 * whole, mesh, [torch.distributed.tensor.Shard(0)])
        state: dict[str, Any] = {"shard": empty, "step": 0}
        checkpoint.load(state, checkpoint_id=Path(path) / name)
        same(state["shard"].full_tensor(), whole + 1)
        assert state["step"] == 7


@case
def callbacks_of_futures_call_and_wait(rank: int, size: int) -> None:
    """Gloo hangs here: it has two threads, and each callback that waits takes one."""
    beside, total = dist.new_group(), sum(range(1, size + 1))

    def begun(tensor: torch.Tensor, group: Any = None) -> Any:
        return dist.all_reduce(tensor, group=group, async_op=True)

    def further(future: Any, left: int) -> torch.Tensor:
        if not left:
            return future.value()[0]
        return begun(future.value()[0]).get_future().then(lambda one: further(one, left - 1)).wait()

    def each_way(future: Any) -> list[torch.Tensor]:
        made = [future.value()[0].clone() for _ in range(6)]
        begun(made[0]).wait()
        begun(made[1]).get_future().wait()
        dist.all_reduce(made[2])
        begun(made[3], beside).wait()
        torch.futures.collect_all([begun(made[4]).get_future(), begun(made[5], beside).get_future()]).wait()
        return made

    # each callback is there before the next call of this thread, so that the order is the same on all ranks
    futures = [begun(torch.ones(2)).get_future().then(lambda one, i=i: further(one, i)) for i in range(8)]
    for i, found in enumerate(torch.futures.wait_all(futures)):
        same(found, torch.full((2,), float(size ** (i + 1))))
    for found in begun(torch.ones(2) + rank).get_future().then(each_way).wait():
        same(found, torch.full((2,), float(total * size)))
    tensor = torch.ones(2)
    dist.all_reduce(tensor)  # another thread than that of the callbacks, at once
    same(tensor, torch.full((2,), float(size)))


@case
def a_callback_waits_for_calls_behind_its_own(rank: int, size: int) -> None:
    beside, works = dist.new_group(), list[Any]()

    def callback(future: Any) -> torch.Tensor:
        works[1].wait()
        assert works[1].is_completed() and works[1].is_success()
        return future.value()[0] + works[2].get_future().wait()[0]

    if rank:
        dist.barrier(beside)  # until rank 0 has registered its callback
    tensors = [torch.ones(2) * i for i in (1, 2, 3)]
    works += [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    if rank == 0:
        future = works[0].get_future().then(callback)
        dist.barrier(beside)
        same(future.wait(), torch.full((2,), 4.0 * size))
    assert all(work.wait() for work in works)
    same(tensors[1], torch.full((2,), 2.0 * size))


@case
def what_torch_refuses(rank: int, size: int) -> None:
    if torch.__version__ < (2, 15):
        with pytest.raises(RuntimeError, match="not safe to split"):  # torch splits groups of accelerators
            dist.split_group(split_ranks=[[r] for r in range(size)])
    group = dist.new_group(backend="cpu:shmcoll")
    dist.barrier(group=group)
    assert isinstance(dist.get_backend_config(group), str)
    if torch.__version__ >= (2, 14):
        return
    with pytest.raises(TypeError, match="does not support shrinking"):
        dist.shrink_group([0 if rank else 1])
    for backend in ("cpu:shmcoll,cuda:nccl", "cpu:shmcoll,cuda:gloo"):
        with pytest.raises(ValueError, match=r'dist\.new_group\(backend="shmcoll"\)'):
            dist.new_group(backend=backend)


@case
def the_state_of_a_group(rank: int, size: int) -> None:
    made = dist.new_group()
    group = shmcoll.torch.backend_of(made)
    assert group.get_error().name == "SUCCESS"
    before = group._get_sequence_number_for_group()
    dist.barrier(group=made)
    assert group._get_sequence_number_for_group() == before + 1
    group.shutdown()
    assert group.get_error().name == "COMM_ERROR"
    group.shutdown()  # has no effect
    group.abort()
