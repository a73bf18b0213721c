"""Programs that watch calls, or limit them."""

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tests.torch.programs.table import program


@program
def events_in_the_profiler(rank: int, size: int) -> Any:
    """Events have the names of gloo's, with the name of the backend in place of gloo."""

    def parts() -> list[torch.Tensor]:
        return [torch.ones(4) for _ in range(size)]

    x, following, before = torch.ones(4 * size), (rank + 1) % size, (rank - 1) % size
    with torch.autograd.profiler.profile() as profile:
        dist.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        work.get_future().then(lambda one: one.value()).wait()
        dist.reduce(x, 0)
        dist.broadcast(x, 0)
        dist.all_gather(parts(), torch.ones(4))
        dist.gather(torch.ones(4), parts() if rank == 0 else None)
        dist.scatter(torch.ones(4), parts() if rank == 0 else None)
        dist.all_to_all_single(torch.ones(4 * size), x)
        dist.barrier()
        sent = dist.isend(x, following, tag=1), dist.isend(x, following, tag=2)
        dist.recv(torch.ones(4 * size), before, tag=1)
        dist.recv(torch.ones(4 * size), tag=2)
        for one in sent:
            one.wait()
    backend = f"{dist.get_backend()}:"
    names = [event.name for event in profile.function_events if event.name.startswith(backend)]
    return sorted(name.removeprefix(backend) for name in names)


@program
def timeouts_that_are_set_later(rank: int, size: int) -> Any:
    """A call keeps the limit with which it began."""
    group, results = dist.new_group(timeout=timedelta(seconds=60)), []
    for set_timeout in (dist.distributed_c10d._set_pg_timeout, lambda limit, group: group.set_timeout(limit)):
        set_timeout(timedelta(seconds=40), group)
        pending = dist.all_reduce(torch.ones(1), group=group, async_op=True) if rank == 0 else None
        set_timeout(timedelta(milliseconds=30), group)
        dist.barrier()
        if pending is None:
            set_timeout(timedelta(seconds=40), group)
            dist.all_reduce(torch.ones(1), group=group)
        else:
            pending.wait()
        set_timeout(timedelta(seconds=40), group)
        dist.barrier(group)
    set_timeout(timedelta(milliseconds=30), group)
    if rank == 0:
        try:
            dist.all_reduce(torch.ones(1), group=group)
        except RuntimeError:
            results.append("too late")
    dist.barrier()
    return results
