"""What every collective of the backend must do, against torch in one process: a table of cases by name.

Each case is a function of this rank and the number of ranks. It raises `AssertionError` if a result is not that of the
model, which computes the same from the inputs of all ranks. Inputs are small whole numbers, so that all dtypes are
exact, whatever the order of a sum.
"""

import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import shmcoll.torch

Case = Callable[[int, int], None]
CASES: dict[str, Case] = {}

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SHAPES = ((), (0,), (5,), (2, 3), (1000,))

Op = dist.ReduceOp

#: the dispatcher of torch 2.14 sees tensors before we do: it replaces views that negate by copies, and answers for
#: tensors of the device "meta"
IS_WRAPPED = torch.__version__ >= (2, 14)


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def run_all(comm: Any, store: Path) -> dict[str, str]:
    return run_table(comm, store, CASES)


def run_table(comm: Any, store: Path, cases: dict[str, Case]) -> dict[str, str]:
    """Run all cases of a table on this rank; return the tracebacks of those that failed."""
    rank, size = comm.rank, comm.size
    dist.init_process_group("shmcoll", store=dist.FileStore(str(store), size), rank=rank, world_size=size)
    warnings.simplefilter("ignore", FutureWarning)  # of names that torch is about to rename
    failed = {}
    for name, function in cases.items():
        try:
            function(rank, size)
        except BaseException:
            failed[name] = traceback.format_exc()
    dist.destroy_process_group()
    return failed


def given(rank: int, shape: Any = (4,), dtype: torch.dtype = torch.float32, low: int = 1) -> torch.Tensor:
    """Return the input of a rank; every rank can compute that of any other."""
    made = torch.Generator().manual_seed(1000 + rank)
    return torch.randint(low, 4, tuple(shape), generator=made).to(dtype)


def same(found: torch.Tensor, expected: torch.Tensor, what: Any = "") -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape, (what, found, expected)
    assert torch.equal(found, expected), (what, found, expected)


def reduced(op: Any, tensors: list[torch.Tensor]) -> torch.Tensor:
    whole = torch.stack(tensors)
    if op == Op.SUM:
        return whole.sum(0, dtype=whole.dtype)
    if op == Op.PRODUCT:
        return whole.prod(0, dtype=whole.dtype)
    if op == Op.MIN:
        return whole.amin(0)
    if op == Op.MAX:
        return whole.amax(0)
    if op == Op.AVG:
        return whole.sum(0) / len(tensors)
    result = tensors[0].clone()
    for one in tensors[1:]:
        result = {Op.BAND: result & one, Op.BOR: result | one, Op.BXOR: result ^ one}[op]
    return result


def apart(tensor: torch.Tensor) -> torch.Tensor:
    """Return an equal tensor whose elements are not next to each other."""
    wide = torch.full((*tensor.shape, 3), 99, dtype=tensor.dtype)
    wide[..., 1] = tensor
    return wide[..., 1]


@case
def all_reduce_of_every_operator_and_dtype(rank: int, size: int) -> None:
    for dtype in (*FLOATS, *INTEGERS):
        kinds = [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX]
        kinds += [Op.AVG] if dtype in FLOATS else [Op.BAND, Op.BOR, Op.BXOR]
        for op in kinds:
            tensor = given(rank, dtype=dtype)
            assert dist.all_reduce(tensor, op) is None
            same(tensor, reduced(op, [given(r, dtype=dtype) for r in range(size)]), (op, dtype))


@case
def averages_of_integers_are_divided_towards_zero(rank: int, size: int) -> None:
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8):
        low = 0 if dtype == torch.uint8 else -7
        x = torch.arange(low, low + 7 * size).to(dtype)
        total = sum(x.to(torch.int64) + r for r in range(size))
        expected = total.div(size, rounding_mode="trunc").to(dtype)
        tensors = [x + rank for _ in range(3)]
        dist.all_reduce(tensors[0], Op.AVG)
        dist.reduce(tensors[1], 0, Op.AVG)
        part = torch.zeros(7, dtype=dtype)
        dist.reduce_scatter_tensor(part, tensors[2], Op.AVG)
        same(tensors[0], expected)
        same(tensors[1], expected if rank == 0 else x + rank)
        same(part, expected[7 * rank : 7 * rank + 7])
        dist.reduce_scatter(part, list((x + rank).chunk(size)), Op.AVG)
        same(part, expected[7 * rank : 7 * rank + 7])


@case
def all_reduce_of_every_shape(rank: int, size: int) -> None:
    for shape in SHAPES:
        for make in (torch.clone, apart, lambda t: t.requires_grad_(), torch.nn.Parameter):
            tensor = make(given(rank, shape))
            dist.all_reduce(tensor)
            same(tensor.detach(), reduced(Op.SUM, [given(r, shape) for r in range(size)]), (shape, make))


@case
def what_lies_between_the_elements_stays(rank: int, size: int) -> None:
    wide = torch.arange(12.0).reshape(3, 4)
    dist.all_reduce(wide[:, 1])
    expected = torch.arange(12.0).reshape(3, 4)
    expected[:, 1] *= size
    same(wide, expected)
    channels = given(rank, (2, 3, 4, 5)).to(memory_format=torch.channels_last)
    dist.all_reduce(channels)
    same(channels, reduced(Op.SUM, [given(r, (2, 3, 4, 5)) for r in range(size)]))


@case
def all_reduce_of_complex_and_bool(rank: int, size: int) -> None:
    tensor = torch.complex(given(rank), given(rank + 1))
    dist.all_reduce(tensor)
    same(tensor, reduced(Op.SUM, [torch.complex(given(r), given(r + 1)) for r in range(size)]))
    both = torch.complex(given(rank), given(rank + 1))
    negative = both.conj().imag  # a view that negates when it is read
    assert negative.is_neg()
    if not IS_WRAPPED:
        dist.all_reduce(negative)
        same(both.imag, reduced(Op.SUM, [given(r + 1) for r in range(size)]))
    truth = torch.tensor([rank == 0, True, False])
    dist.all_reduce(truth, Op.BOR)
    same(truth, torch.tensor([True, True, False]))


@case
def premul_sum(rank: int, size: int) -> None:
    tensor = given(rank)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    same(tensor, reduced(Op.SUM, [given(r) * 0.5 for r in range(size)]))
    tensor = given(rank)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(torch.tensor([3.0])))
    same(tensor, reduced(Op.SUM, [given(r) * 3 for r in range(size)]))


@case
def broadcast(rank: int, size: int) -> None:
    for root in range(size):
        for shape in SHAPES:
            for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.complex64, torch.float8_e5m2):
                expected = given(root, shape).to(dtype)
                tensor = given(rank, shape).to(dtype)
                dist.broadcast(tensor, root)
                if dtype is torch.float8_e5m2:
                    tensor, expected = tensor.float(), expected.float()
                same(tensor, expected, (root, shape, dtype))
        tensor = apart(given(rank, (2, 3)))
        dist.broadcast(tensor, root)
        same(tensor, given(root, (2, 3)))


@case
def all_gather(rank: int, size: int) -> None:
    for shape in SHAPES:
        for make in (torch.clone, apart):
            found = [make(torch.zeros(shape)) for _ in range(size)]
            dist.all_gather(found, make(given(rank, shape)))
            for r, one in enumerate(found):
                same(one, given(r, shape), (r, shape))


@case
def all_gather_into_tensor(rank: int, size: int) -> None:
    whole = torch.cat([given(r, (2, 3)) for r in range(size)])
    for gather in (dist.all_gather_into_tensor, getattr(dist, "all_gather_single", dist.all_gather_into_tensor)):
        out = torch.zeros(2 * size, 3)
        gather(out, given(rank, (2, 3)))
        same(out, whole)
        stacked = apart(torch.zeros(size, 2, 3))
        gather(stacked, apart(given(rank, (2, 3))))
        same(stacked, whole.reshape(size, 2, 3))


@case
def reduce_scatter(rank: int, size: int) -> None:
    for op in (Op.SUM, Op.AVG, Op.MAX):
        for shape in SHAPES:
            lists = [[given(10 * r + part, shape) for part in range(size)] for r in range(size)]
            for make in (torch.clone, apart):
                out = make(torch.zeros(shape))
                dist.reduce_scatter(out, [make(one) for one in lists[rank]], op)
                same(out, reduced(op, [lists[r][rank] for r in range(size)]), (op, shape))


@case
def reduce_scatter_tensor(rank: int, size: int) -> None:
    for scatter in (dist.reduce_scatter_tensor, getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)):
        for op in (Op.SUM, Op.AVG, Op.MIN):
            out = torch.zeros(2, 3)
            scatter(out, given(rank, (2 * size, 3)), op)
            same(out, reduced(op, [given(r, (2 * size, 3)) for r in range(size)])[2 * rank : 2 * rank + 2], op)


@case
def all_to_all(rank: int, size: int) -> None:
    # rank r sends r + part + 1 elements to rank `part`
    out = [torch.zeros(r + rank + 1) for r in range(size)]
    dist.all_to_all(out, [given(10 * rank + part, (rank + part + 1,)) for part in range(size)])
    for r, one in enumerate(out):
        same(one, given(10 * r + rank, (r + rank + 1,)))
    equal = [torch.zeros(2, 2, dtype=torch.bfloat16) for _ in range(size)]
    dist.all_to_all(equal, [given(10 * rank + part, (2, 2), torch.bfloat16) for part in range(size)])
    for r, one in enumerate(equal):
        same(one, given(10 * r + rank, (2, 2), torch.bfloat16))


@case
def all_to_all_single(rank: int, size: int) -> None:
    out = torch.zeros(2 * size, 3)
    dist.all_to_all_single(out, given(rank, (2 * size, 3)))
    same(out, torch.cat([given(r, (2 * size, 3))[2 * rank : 2 * rank + 2] for r in range(size)]))
    # with splits: rank r sends r + part rows to rank `part`
    send, recv = [rank + part for part in range(size)], [r + rank for r in range(size)]
    out = apart(torch.zeros(sum(recv), 3))
    dist.all_to_all_single(out, apart(given(rank, (sum(send), 3))), recv, send)
    expected = []
    for r in range(size):
        rows = [r + part for part in range(size)]
        expected.append(given(r, (sum(rows), 3)).split(rows)[rank])
    same(out, torch.cat(expected))


@case
def reduce(rank: int, size: int) -> None:
    for root in range(size):
        for op in (Op.SUM, Op.AVG, Op.PRODUCT):
            for make in (torch.clone, apart):
                tensor = make(given(rank))
                dist.reduce(tensor, root, op)
                expected = reduced(op, [given(r) for r in range(size)]) if rank == root else given(rank)
                same(tensor, expected, (root, op))


@case
def gather_and_scatter(rank: int, size: int) -> None:
    for root in range(size):
        for shape in SHAPES:
            for make in (torch.clone, apart):
                found = [make(torch.zeros(shape)) for _ in range(size)] if rank == root else None
                dist.gather(make(given(rank, shape)), found, root)
                for r, one in enumerate(found or ()):
                    same(one, given(r, shape))
                out = make(torch.zeros(shape))
                parts = [make(given(part, shape)) for part in range(size)] if rank == root else None
                dist.scatter(out, parts, root)
                same(out, given(rank, shape))


@case
def messages(rank: int, size: int) -> None:
    after, before = (rank + 1) % size, (rank - 1) % size
    for shape in SHAPES:
        sending = dist.isend(given(rank, shape), after, tag=3)
        out = torch.zeros(shape)
        assert dist.recv(out, before, tag=3) == before
        sending.wait()
        same(out, given(before, shape))
    # by tag, the later one first
    for tag in (1, 2):
        dist.isend(given(10 * rank + tag), after, tag=tag).wait()
    for tag in (2, 1):
        out = apart(torch.zeros(4))
        work = dist.irecv(out, before, tag=tag)
        work.wait()
        assert work.is_completed() and work.source_rank() == before
        same(out, given(10 * before + tag))
    # from any rank: each sends to rank 0
    if rank:
        dist.send(given(rank), 0, tag=4)
    else:
        seen = set()
        for _ in range(size - 1):
            out = torch.zeros(4)
            source = dist.recv(out, tag=4)
            same(out, given(source))
            seen.add(source)
        assert seen == set(range(1, size))
    dist.barrier()


@case
def batches_of_messages(rank: int, size: int) -> None:
    after, before = (rank + 1) % size, (rank - 1) % size
    big = given(rank, (1 << 18,))  # longer than what is kept without a receiver
    out = torch.zeros(1 << 18)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, big, after), dist.P2POp(dist.irecv, out, before)])
    for work in works:
        work.wait()
    same(out, given(before, (1 << 18,)))


@case
def coalesced_forms(rank: int, size: int) -> None:
    tensors = [given(rank, shape) for shape in SHAPES]
    dist.distributed_c10d.all_reduce_coalesced(tensors)
    for tensor, shape in zip(tensors, SHAPES, strict=True):
        same(tensor, reduced(Op.SUM, [given(r, shape) for r in range(size)]))
    a, b = given(rank), given(rank, (2, 3), torch.float32)
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(a)
        dist.all_reduce(b)
    manager.wait()
    same(b, reduced(Op.SUM, [given(r, (2, 3)) for r in range(size)]))
    outs = [torch.zeros(4 * size), torch.zeros(2 * size, 3)]
    with dist.distributed_c10d._coalescing_manager():
        dist.all_gather_into_tensor(outs[0], given(rank))
        dist.all_gather_into_tensor(outs[1], given(rank, (2, 3)))
    same(outs[1], torch.cat([given(r, (2, 3)) for r in range(size)]))
    part = torch.zeros(2)
    with dist.distributed_c10d._coalescing_manager():
        dist.reduce_scatter_tensor(part, given(rank, (2 * size,)))
    same(part, reduced(Op.SUM, [given(r, (2 * size,)) for r in range(size)])[2 * rank : 2 * rank + 2])
    lists = [[torch.zeros(4), torch.zeros(2)] for _ in range(size)]
    dist.distributed_c10d.all_gather_coalesced(lists, [given(rank), given(rank, (2,))])
    for r, pair in enumerate(lists):
        same(pair[0], given(r))
        same(pair[1], given(r, (2,)))


@case
def objects(rank: int, size: int) -> None:
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank})
    assert everything == [{"rank": r, "text": "x" * r} for r in range(size)]
    shared = ["a", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, 0)
    assert shared == ["a", 0]
    found = [None] * size if rank == 0 else None
    dist.gather_object((rank, "b"), found, 0)
    assert found is None or found == [(r, "b") for r in range(size)]
    mine: list[Any] = [None]
    dist.scatter_object_list(mine, [f"part {r}" for r in range(size)] if rank == 0 else None, 0)
    assert mine == [f"part {rank}"]
    if rank == 0:
        dist.send_object_list(["sent", 1], 1)
    elif rank == 1:
        received = [None, None]
        dist.recv_object_list(received, 0)
        assert received == ["sent", 1]


@case
def asynchronous_calls(rank: int, size: int) -> None:
    tensors = [given(rank, (i + 1,)) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    now = given(rank)
    dist.all_reduce(now)  # in turn, after those that are pending
    for i, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
        assert work.wait() is True and work.is_completed() and work.is_success()
        assert work.exception() is None
        same(tensor, reduced(Op.SUM, [given(r, (i + 1,)) for r in range(size)]))
    spread = apart(given(rank))
    future = dist.all_reduce(spread, async_op=True).get_future()
    doubled = future.then(lambda ended: ended.value()[0] * 2)
    same(doubled.wait(), 2 * reduced(Op.SUM, [given(r) for r in range(size)]))
    same(spread, reduced(Op.SUM, [given(r) for r in range(size)]))
    out = torch.zeros(4)
    received = dist.irecv(out, (rank - 1) % size).get_future()
    dist.isend(given(rank), (rank + 1) % size).wait()
    received.wait()
    same(out, given((rank - 1) % size))


@case
def a_wait_with_a_limit(rank: int, size: int) -> None:
    work = dist.irecv(torch.zeros(1), (rank + 1) % size, tag=77)
    with pytest.raises(dist.DistBackendError, match=r"recv has not ended within 0\.01 s; it continues"):
        work.wait(timedelta(milliseconds=10))
    assert not work.is_completed()
    dist.barrier()  # no rank sends before all have waited
    dist.send(torch.ones(1), (rank - 1) % size, tag=77)
    work.wait()


@case
def groups(rank: int, size: int) -> None:
    evens, odds = list(range(0, size, 2)), list(range(1, size, 2))
    mine, others = (evens, odds) if rank % 2 == 0 else (odds, evens)
    made = {ranks[0]: dist.new_group(ranks) for ranks in (evens, odds)}
    group = made[mine[0]]
    assert made[others[0]] == dist.GroupMember.NON_GROUP_MEMBER
    assert dist.get_backend(group) == "shmcoll" and dist.get_process_group_ranks(group) == mine
    tensor, whole = given(rank), given(rank)
    work = dist.all_reduce(tensor, group=group, async_op=True)
    dist.all_reduce(whole)
    work.wait()
    same(tensor, reduced(Op.SUM, [given(r) for r in mine]))
    same(whole, reduced(Op.SUM, [given(r) for r in range(size)]))
    again = dist.new_group(list(range(size)))
    tensor = given(rank)
    dist.broadcast(tensor, size - 1, group=again)
    same(tensor, given(size - 1))
    dist.destroy_process_group(again)
    dist.destroy_process_group(group)
    alone = dist.new_group([0])
    if rank == 0:
        dist.all_reduce(tensor, group=alone)
        same(tensor, given(size - 1))
        dist.destroy_process_group(alone)  # torch's name of a local group depends on how many groups a rank has
    local = dist.new_group(mine, use_local_synchronization=True)
    dist.barrier(group=local)


@case
def monitored_barriers(rank: int, size: int) -> None:
    shmcoll.torch.monitored_barrier()
    shmcoll.torch.monitored_barrier(timeout=20, wait_all_ranks=True)
    assert shmcoll.torch.backend_of().comm.timeout > 20
    with pytest.raises(TypeError, match="the group must be one of the backend 'shmcoll'"):
        shmcoll.torch.monitored_barrier(7)


@case
def functional_collectives(rank: int, size: int) -> None:
    world = dist.group.WORLD
    same(functional.all_reduce(given(rank), "sum", world) + 0, reduced(Op.SUM, [given(r) for r in range(size)]))
    whole = torch.cat([given(r, (2, 3)) for r in range(size)])
    same(functional.all_gather_tensor(given(rank, (2, 3)), 0, world) + 0, whole)
    part = functional.reduce_scatter_tensor(given(rank, (2 * size,)), "avg", 0, world) + 0
    same(part, reduced(Op.AVG, [given(r, (2 * size,)) for r in range(size)])[2 * rank : 2 * rank + 2])
    same(functional.broadcast(given(rank), size - 1, world) + 0, given(size - 1))
    swapped = functional.all_to_all_single(given(rank, (size,)), [1] * size, [1] * size, world) + 0
    same(swapped, torch.stack([given(r, (size,))[rank] for r in range(size)]))


@case
def a_device_mesh_and_a_sharded_tensor(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(6.0 * size).reshape(2 * size, 3)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    same(sharded.to_local(), whole[2 * rank : 2 * rank + 2])
    same((sharded * 2).redistribute(mesh, [Replicate()]).to_local(), whole * 2)


@case
def inference_mode(rank: int, size: int) -> None:
    with torch.inference_mode():
        for make in (torch.clone, apart):
            tensor = make(given(rank))
            dist.all_reduce(tensor)
            same(tensor, reduced(Op.SUM, [given(r) for r in range(size)]))


@case
def mistakes_are_refused_before_anything_moves(rank: int, size: int) -> None:
    x, out = torch.ones(4), torch.zeros(4 * size)
    for error, text, call in (
        ((TypeError, NotImplementedError), "dense tensors|SparseCPU", lambda: dist.broadcast(x.to_sparse(), 0)),
        (ValueError, "only be added up", lambda: dist.all_reduce(x.to_sparse(), Op.MAX)),
        (ValueError, "different shapes", lambda: dist.all_reduce(torch.ones(2 + rank).to_sparse())),
        (TypeError, "avg", lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), Op.AVG)),
        (TypeError, "bor", lambda: dist.all_reduce(x, Op.BOR)),
        (TypeError, "float8", lambda: dist.all_reduce(x.to(torch.float8_e5m2))),
        (ValueError, "one tensor for each", lambda: dist.all_gather([x] * (size + 1), x)),
        (ValueError, "invalid tensor size", lambda: dist.all_gather([torch.zeros(3)] * size, x)),
        (ValueError, "world_size times input", lambda: dist.all_gather_into_tensor(out[1:], x)),
        (TypeError, "same type", lambda: dist.all_gather_into_tensor(out.double(), x)),
        (ValueError, "output size times world size", lambda: dist.reduce_scatter_tensor(x, out[1:])),
        (RuntimeError, "does not divide equally", lambda: dist.all_to_all_single(out[:1], torch.ones(2 * size + 1))),
        (RuntimeError, "Split sizes", lambda: dist.all_to_all_single(x, x, [1] * size, [9] * size)),
        (TypeError, "has no options", lambda: dist.new_group(pg_options=object())),
    ):
        with pytest.raises(error, match=text):
            call()
    dist.barrier()


@case
def what_only_a_group_that_is_its_own_backend_refuses(rank: int, size: int) -> None:
    if IS_WRAPPED:
        return
    group = dist.group.WORLD
    for error, text, call in (
        (TypeError, "moves tensors of the CPU", lambda: dist.all_reduce(torch.ones(2, device="meta"))),
        (NotImplementedError, "use dist.batch_isend_irecv", lambda: group._start_coalescing("cpu")),
        (NotImplementedError, "use dist.new_group", lambda: group.split_group([0])),
    ):
        with pytest.raises(error, match=text):
            call()
