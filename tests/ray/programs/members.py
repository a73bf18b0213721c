"""The actors of the programs, and what they call. Each function runs in an actor."""

import os
import signal

import numpy as np
import ray
import ray.util.collective as collective
from ray.util.collective.types import ReduceOp

import shmcoll.ray


def start(**environment):
    """Start a Ray of our own, whose processes all know the backend."""
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=80 << 20,
        log_to_driver=False,
        namespace="tests",
        runtime_env={"worker_process_setup_hook": "shmcoll.ray.register", "env_vars": environment},
    )


@ray.remote(num_cpus=0)
class Member:
    def run(self, function, *args):
        return function(*args)

    def join(self, size, rank, name="default", backend="shmcoll"):
        collective.init_collective_group(size, rank, backend, name)


def members(n, **options):
    return [Member.options(name=f"member-{rank}", **options).remote() for rank in range(n)]


def joined(actors, name="default", backend="shmcoll"):
    """Make a group of actors, in this order."""
    ray.get([actor.join.remote(len(actors), rank, name, backend) for rank, actor in enumerate(actors)])
    return actors


def on_all(actors, function, *args):
    return ray.get([actor.run.remote(function, *args) for actor in actors])


def failing(reference):
    """Return the kind of error that a call ends with, its text, and its rank."""
    try:
        ray.get(reference)
    except Exception as error:
        return type(error).__name__, str(error), getattr(error, "rank", None)
    return "nothing", "", None


def sum_of_ones(name="default"):
    x = np.ones(3)
    collective.allreduce(x, name)
    return x.tolist()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def eight_calls(make):
    """Make every call of `ray.util.collective` in the default group; return all tensors that these write."""
    rank, n = collective.get_rank(), collective.get_collective_group_size()
    told = {}

    def tensor(*values):
        return make(np.array(values, np.float32))

    for op in ReduceOp:
        told[f"allreduce {op.name}"] = x = tensor(rank + 1, 2, rank * 0.5)
        collective.allreduce(x, "default", op)
        told[f"reduce {op.name}"] = x = tensor(rank + 1, 3)
        collective.reduce(x, n - 1, "default", op)
        told[f"reducescatter {op.name}"] = x = tensor(0, 0)
        collective.reducescatter(x, [tensor(rank + 1, part + 1) for part in range(n)], "default", op)
    told["broadcast"] = x = tensor(rank, 10)
    collective.broadcast(x, 1)
    told["allgather"] = xs = [tensor(0, 0) for _ in range(n)]
    collective.allgather(xs, tensor(rank, rank * rank))
    told["recv"] = x = tensor(0, 0)
    if rank % 2 == 0 and rank + 1 < n:
        collective.send(tensor(rank, 7), rank + 1)
    elif rank % 2:
        collective.recv(x, rank - 1)
    collective.barrier()
    return {name: np.array([np.array(one) for one in x] if isinstance(x, list) else x) for name, x in told.items()}


def other_calls(make):
    """Make the calls that Ray lacks."""
    rank, n = collective.get_rank(), collective.get_collective_group_size()
    told = {}
    told["gather"] = xs = [make(np.zeros(2)) for _ in range(n)]
    shmcoll.ray.gather(make(np.full(2, float(rank))), xs if rank == 1 else None, 1)
    told["scatter"] = x = make(np.zeros(2))
    shmcoll.ray.scatter(x, [make(np.full(2, float(part))) for part in range(n)] if rank == 1 else None, 1)
    told["alltoall"] = xs = [make(np.zeros(1)) for _ in range(n)]
    shmcoll.ray.alltoall(xs, [make(np.full(1, 10.0 * rank + part)) for part in range(n)])
    rows, _ = shmcoll.ray.communicator().all_gather_v(np.full((rank, 2), rank), axis=0)
    told["rows"] = rows
    return {name: np.array([np.array(one) for one in x] if isinstance(x, list) else x) for name, x in told.items()}
