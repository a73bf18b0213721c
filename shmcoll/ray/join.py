"""How the actors of a Ray group meet: through Ray's key-value store, and then in shared memory.

Groups of one name may follow each other, and actors that were killed leave keys behind. So all keys but one have the
number of a meeting, which is random. For group g of a Ray job, rank by rank:

    g        rank 0: the number m of the meeting
    g/m/r    rank r, after it has read m: what it says of itself, with a random token
    g/m      rank 0, as soon as every g/m/r is there: what all have said

A rank other than 0 reads g, writes g/m/r, and waits until it finds g/m with its own words in it. If g changes
meanwhile, it begins again, because that m was of a rank 0 that has gone. Its own words cannot be in a g/m that was
there before. Nobody waits longer than SHMCOLL_JOIN_TIMEOUT, and the error has the ranks that have said nothing.

Then all know the same, so all come to the same result. If they are not on one machine, all refuse. If all of them are
in one living job already, in ascending order, the group is a subgroup there; so groups that are made and destroyed
again and again take no memory. Else they join a job of their own under the name m. After a barrier, rank 0 removes the
keys.
"""

import json
import secrets
import time
from typing import Any

import ray
from ray.experimental import internal_kv

from shmcoll.communicator import Communicator
from shmcoll.engine.memory import records
from shmcoll.engine.system.text import to_bytes, to_text
from shmcoll.errors import ShmcollError
from shmcoll.ray.errors import naming
from shmcoll.startup import join as startup
from shmcoll.startup import machine

_NAMESPACE = b"shmcoll"
_PAUSE = 0.01  # seconds between two looks

_jobs: dict[str, Communicator] = {}  # of this process, by their names


def join(name: str, rank: int, size: int) -> tuple[Communicator, list[str]]:
    """Return the communicator of a group, and a description of each rank's actor.

    Raises:
        NotImplementedError: the actors are on several machines.
        ShmcollError: ranks have not come in time.
    """
    number, told = _meet(_key(name), rank, size)
    actors = [one["actor"] for one in told]
    elsewhere = [other for other, one in enumerate(told) if one["machine"] != told[rank]["machine"]]
    if elsewhere:
        raise NotImplementedError(
            f"the backend shmcoll connects the actors of one machine, and of group {name!r} "
            f"{', '.join(f'rank {other} ({actors[other]})' for other in elsewhere)} are not on that of rank {rank} "
            f'({actors[rank]}); place them by a placement group of strategy "STRICT_PACK", or use backend "gloo"'
        )
    with naming(actors):
        world, numbers = _job(number, told, rank, size)
        comm = world.subgroup(numbers, name=f"ray {number}")
        comm.barrier()
    if rank == 0:
        internal_kv._internal_kv_del(_key(name), namespace=_NAMESPACE)
        internal_kv._internal_kv_del(_key(name, number), del_by_prefix=True, namespace=_NAMESPACE)
    return comm, actors


def _job(number: str, told: list[dict[str, Any]], rank: int, size: int) -> tuple[Communicator, list[int]]:
    """Return the communicator of a job that has all ranks, and their numbers in it."""
    for job in told[0]["jobs"]:
        numbers = [one["jobs"].get(job, -1) for one in told]
        if numbers[0] >= 0 and numbers == sorted(set(numbers)):
            return _jobs[job], numbers
    _jobs[number] = startup.join_beside(f"ray:{number}", rank, size, "ray")
    return _jobs[number], list(range(size))


def _meet(key: bytes, rank: int, size: int) -> tuple[str, list[dict[str, Any]]]:
    """Return the number of the meeting, and what all ranks have said."""
    end = time.monotonic() + startup.limits()[1]
    mine = {
        "token": secrets.token_hex(8),
        "machine": machine.identity(),
        "actor": _description(),
        "jobs": {job: comm.rank for job, comm in _jobs.items() if _is_whole(comm)},
    }
    said = to_bytes(json.dumps(mine))
    number = secrets.token_hex(16)
    if rank == 0:
        _put(key, to_bytes(number))
    found = ""
    while True:
        current = _get(key)
        if current is not None and (rank or to_text(current) == number):
            number = to_text(current)
            if found != number:
                _put(_under(key, number, rank), said)
                found = number
            if rank == 0 and None not in (all_said := _said(key, number, size)):
                _put(_under(key, number), to_bytes(f"[{','.join(to_text(one) for one in all_said if one)}]"))
            told = _get(_under(key, number))
            if told is not None and (everything := json.loads(told))[rank : rank + 1] == [json.loads(said)]:
                return number, everything
        if time.monotonic() > end:
            raise _late(key, number, rank, size)
        time.sleep(_PAUSE)


def _late(key: bytes, number: str, rank: int, size: int) -> ShmcollError:
    missing = [other for other, one in enumerate(_said(key, number, size)) if one is None and other != rank]
    name = to_text(key).partition("/")[2]
    return ShmcollError(
        f"rank {rank}: ranks {missing} of {size} have not joined group {name!r} within the time given; make the group "
        f"in all of its actors at the same time, or raise SHMCOLL_JOIN_TIMEOUT",
        missing=missing,
    )


def _said(key: bytes, number: str, size: int) -> list[bytes | None]:
    return [_get(_under(key, number, rank)) for rank in range(size)]


def _key(name: str, number: str = "") -> bytes:
    key = to_bytes(f"{ray.get_runtime_context().get_job_id()}/{name}")
    return _under(key, number) if number else key


def _under(key: bytes, *parts: object) -> bytes:
    return b"/".join([key, *(to_bytes(str(part)) for part in parts)])


def _put(key: bytes, value: bytes) -> None:
    internal_kv._internal_kv_put(key, value, overwrite=True, namespace=_NAMESPACE)


def _get(key: bytes) -> bytes | None:
    found: bytes | None = internal_kv._internal_kv_get(key, namespace=_NAMESPACE)
    return found


def _is_whole(world: Communicator) -> bool:
    """Return whether all ranks of a job are still there."""
    group = world._dispatcher.group
    return not group.has_ended() and not any(records.how_ended(group.arena, rank) for rank in group.ranks)


def _description() -> str:
    """Return what users know the caller by: the name and the ID of its actor, and the address of its node."""
    context = ray.get_runtime_context()
    where = f"on node {ray.util.get_node_ip_address()}"
    if not context.get_actor_id():
        return f"the task {context.get_task_id()} {where}"
    kind = (context.get_task_function_name() or "").rpartition(".")[0].rpartition(".")[2]
    name = f"{kind} {context.get_actor_name()!r}" if context.get_actor_name() else kind
    return f"the actor {name} ({context.get_actor_id()}) {where}"
