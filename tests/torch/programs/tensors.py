"""Programs with tensors that are not plain memory, and with calls of the group itself."""

import threading
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.torch.programs.table import program


@program
def sparse_gradients(rank: int, size: int) -> Any:
    """Each rank touches other rows, one several times, and one rank of the second table none."""
    results = []
    for dtype in (torch.float32, torch.float64):
        table = DistributedDataParallel(torch.nn.Embedding(10, 3, sparse=True, dtype=dtype))
        optimizer = torch.optim.SGD(table.parameters(), lr=0.5)
        for step in range(3):
            optimizer.zero_grad()
            rows = torch.tensor([rank, 5, 5, step]) if rank else torch.tensor([], dtype=torch.int64)
            (table(rows) * (rank + 1)).sum().backward()
            results.append(table.module.weight.grad)
            optimizer.step()
        results.append(table.module.weight)
    return results


def made(indices: torch.Tensor, values: torch.Tensor, shape: Any) -> torch.Tensor:
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=True)


@program
def sparse_all_reduce(rank: int, size: int) -> Any:
    def given(dtype: torch.dtype = torch.float32) -> torch.Tensor:
        indices = torch.tensor([[0, 1 + rank, 0], [0, 2, 0]])
        return made(indices, torch.tensor([3, 4, 5 + rank], dtype=dtype), (size + 1, 4))

    results = [given(), given(torch.int64), given(torch.float64)]
    for tensor in results:
        dist.all_reduce(tensor)
    later = given()
    work = dist.all_reduce(later, async_op=True)
    work.wait()
    rows = made(torch.tensor([[rank, 2]]), torch.ones(2, 3), (size + 2, 3))  # with dense rows
    dist.all_reduce(rows)
    nothing = made(torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), (2, 2))
    dist.all_reduce(nothing)
    return [*results, later, rows, nothing]


@program
def expanded_tensors(rank: int, size: int) -> Any:
    room = [torch.full((64,), rank + 1.0) for _ in range(3)]  # gloo writes past the element
    results = [room[0][:1].expand(4), room[1][:1].expand(2, 3), room[2][:1].expand(2, 2, 2)]
    dist.all_reduce(results[0])
    dist.broadcast(results[1], 1)
    dist.all_reduce(results[2], async_op=True).wait()
    rows = (torch.arange(64.0) + rank)[:2].view(2, 1).expand(2, 3)
    dist.all_reduce(rows)
    return [*results, rows]


@program
def groups_in_another_order(rank: int, size: int) -> Any:
    """Ranks are numbered as the list says."""
    results: list[Any] = []
    for order in ([*range(size)][::-1], [1, 0]):
        group = dist.new_group(order, sort_ranks=False)
        if rank not in order:
            continue
        mine = dist.get_rank(group)
        assert order[mine] == rank and dist.get_process_group_ranks(group) == order
        whole = torch.zeros(len(order))
        dist.all_gather_into_tensor(whole, torch.tensor([float(rank)]), group=group)
        first, part, message = torch.tensor([rank]), torch.zeros(1), torch.zeros(1)
        dist.broadcast(first, group=group, group_src=0)
        dist.reduce_scatter_tensor(part, torch.arange(float(len(order))) * (rank + 1), group=group)
        if mine < 2:
            turn = dist.send if mine == 0 else dist.recv
            turn(message + mine, group=group, **{"group_dst" if mine == 0 else "group_src": 1 - mine})
        results.append([mine, whole, first, part])
        dist.barrier(group)
    return results


@program
def messages_pass_a_collective_that_waits(rank: int, size: int) -> Any:
    """One rank has begun a collective, and its messages are what another rank waits for before it joins."""
    results = []
    for waits_first in (True, False):
        tensor, message = torch.ones(2) + rank, torch.zeros(1)
        if rank == 0:
            work = dist.all_reduce(tensor, async_op=True)
            sent = dist.isend(torch.ones(1) * 3, 1)
            if waits_first:
                sent.wait()
            dist.recv(message, 1)
            dist.send(message + 1, 1)
            if not waits_first:  # over gloo a second wait does not end
                sent.wait()
            work.wait()
        else:
            if rank == 1:
                dist.recv(message, 0)
                dist.send(message * 2, 0)
                dist.recv(message, 0)
            dist.all_reduce(tensor)
        results += [tensor, message]
    return results


@program
def threads_with_a_group_each(rank: int, size: int) -> Any:
    """Over gloo, two threads in one group get each other's results now and then."""
    groups, results = [dist.new_group() for _ in range(2)], [list[Any](), list[Any]()]

    def call(one: int) -> None:
        for step in range(20):
            tensor = torch.full((4,), 10.0**one + step)
            dist.all_reduce(tensor, group=groups[one])
            if rank < 2:
                turn = dist.send if rank == step % 2 else dist.recv
                turn(tensor, 1 - rank, groups[one])
            results[one].append(tensor)

    threads = [threading.Thread(target=call, args=(one,)) for one in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@program
def averages(rank: int, size: int) -> Any:
    """Over gloo integers are refused."""
    results = [torch.tensor([3 + rank, 10]).to(dtype) for dtype in (torch.float32, torch.float64, torch.complex64)]
    for tensor in results:
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
    return [torch.view_as_real(one) if one.is_complex() else one for one in results]


@program
def calls_of_the_group_itself(rank: int, size: int) -> Any:
    group, limit = dist.group.WORLD, timedelta(seconds=60)
    MAX = dist.ReduceOp.MAX
    results: list[Any] = [group.rank(), group.size()]

    def x() -> torch.Tensor:
        return torch.arange(float(2 * size)).view(size, 2) + rank

    def parts() -> list[torch.Tensor]:
        return [torch.zeros(size, 2) for _ in range(size)]

    def done(work: Any, *tensors: Any) -> None:
        work.wait()
        results.extend(tensors)

    for arguments, words in (
        ((), {}),
        ((MAX,), {}),
        ((), {"op": MAX}),
        ((MAX, limit), {}),
        ((), {"timeout": limit}),
    ):
        tensor, listed = x(), x()
        done(group.allreduce(tensor, *arguments, **words), tensor)
        done(group.allreduce([listed], *arguments, **words), listed)
    for arguments, words in (((1,), {}), ((), {"root": 1}), ((1, limit), {})):
        tensor = x()
        done(group.broadcast(tensor, *arguments, **words), tensor)
    for arguments, words in (((0,), {}), ((0, MAX), {}), ((), {"root": 0, "op": MAX, "timeout": limit})):
        tensor = x()
        done(group.reduce(tensor, *arguments, **words), tensor if rank == 0 else None)
    outputs = parts()
    done(group.allgather(outputs, x()), outputs)
    done(group.allgather([outputs], [x() * 2]), outputs)
    for words in ({"root": 1}, {"root": 1, "timeout": limit}):
        outputs = parts() if rank == 1 else []
        done(group.gather(outputs, x(), **words), outputs)
        tensor = x()
        done(group.scatter(tensor, [x() + i for i in range(size)] if rank == 1 else [], **words), tensor)
    for arguments in ((), (MAX,), (MAX, limit)):
        tensor = x()
        done(group.reduce_scatter(tensor, [x() + i for i in range(size)], *arguments), tensor)
    whole, part = torch.zeros(size * size, 2), torch.zeros(1, 2)
    done(group._allgather_base(whole, x()), whole)
    done(group._reduce_scatter_base(part, x()), part)
    exchanged = torch.zeros(size, 2)
    done(group.alltoall_base(exchanged, x(), [], []), exchanged)
    done(group.alltoall_base(exchanged, x(), [1] * size, [1] * size, timeout=limit), exchanged)
    rows = [torch.zeros(1, 2) for _ in range(size)]
    done(group.alltoall(rows, list(x().split(1))), rows)
    done(group.barrier())
    done(group.barrier(timeout=limit))
    tensor = x()
    if rank < 2:
        done(group.send([tensor], 1, 3) if rank == 0 else group.recv([tensor], 0, 3))
    return [*results, tensor]
