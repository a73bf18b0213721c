"""How the ranks of a torch group meet: through torch's store, and then in shared memory.

Every rank of the group, in this order:

1. adds 1 to its own counter in the store. The sum is the generation: how often this rank has made a group with this
   store and prefix. torchrun uses one store for all groups of a job, so keys of an earlier group may still be there.
   All ranks of a group have made it equally often, so they use the same keys, and no key is written twice;
2. writes the identity of its machine. Rank 0 has written a random name before;
3. waits for these keys, up to the timeout of the group;
4. joins the job: under shmrun and one agent of torchrun by their variables, else by number, size and the random name;
5. writes its number in the job, waits for those of all ranks, and joins the communicator of these ranks with the random
   name. So operations of this group meet those of no other group and no other program;
6. writes that it has read the store. The first rank of the group waits for that of all ranks: it may serve the store,
   and end;
7. joins another communicator of the same ranks, for messages alone (`Group` in `group.py`).

The store is kept until the next default group is made. Torch would close the server of a store with its last reference,
in `destroy_process_group` on rank 0. A faster rank that initialises again would then have connected to it. As long as
the server lives, torch uses it again for the same port.

A rank waits only for keys that every rank of the group writes without waiting for anything but earlier keys. So a rank
that is missing is reported after the timeout, by its number.
"""

import os
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from shmcoll.communicator import Communicator
from shmcoll.engine.system.text import to_text
from shmcoll.runtime import thread_team
from shmcoll.startup import join as startup
from shmcoll.startup import machine
from shmcoll.startup.launchers import SeveralMachines, find_placement

_kept_store: Any = None


def join(store: Any, rank: int, size: int, members: Sequence[int], timeout: timedelta) -> Communicator:
    """Return the communicator of a torch group.

    Args:
        store: the store of the group, with its prefix.
        rank: this rank's number in the group.
        size: the number of ranks in the group.
        members: the ranks of the group in the default group; empty for the default group itself.
        timeout: how long to wait for the keys of the other ranks.

    Raises:
        NotImplementedError: ranks are on several machines.
        ValueError: the first group of this backend is not of all ranks.
        torch.distributed.DistBackendError: ranks have not joined in time.
    """
    global _kept_store
    if not members:
        _kept_store = store
    keys = f"shmcoll/{store.add(f'shmcoll/{rank}', 1)}"
    if rank == 0:
        store.set(f"{keys}/name", secrets.token_hex(16))
    machines = _exchange(store, f"{keys}/machine", rank, size, repr(machine.identity()), timeout)
    elsewhere = [other for other, one in enumerate(machines) if one != machines[rank]]
    if elsewhere:
        raise NotImplementedError(
            f"the backend shmcoll connects the processes of one machine, and ranks {elsewhere} are on another one "
            f'than rank {rank}; use backend "gloo" or "mpi" for this group'
        )
    name = to_text(store.get(f"{keys}/name"))
    world = _job(rank, size, members, name)
    numbers = [int(number) for number in _exchange(store, f"{keys}/rank", rank, size, str(world.rank), timeout)]
    if len(set(numbers)) != size:
        raise ValueError(
            f"the ranks of a group of the backend shmcoll must be different ranks of one job, and those of this group "
            f"are {numbers}; start them all with one launcher"
        )
    made = of_ranks(world, numbers, f"torch {name}")
    store.set(f"{keys}/read/{rank}", "")
    if rank == 0:
        store.wait([f"{keys}/read/{other}" for other in range(size)], timeout)
    return made


def of_ranks(world: Communicator, numbers: list[int], name: str) -> Communicator:
    """Return the communicator of these ranks, numbered in this order."""
    return world._of_members(numbers, name)


def _job(rank: int, size: int, members: Sequence[int], name: str) -> Communicator:
    """Join the job of all ranks, or return its communicator if this process has joined it."""
    if startup._joined is None:
        thread_team.most_by_auto = torch.get_num_threads()
        here, ranks = (dist.get_rank(), dist.get_world_size()) if members else (rank, size)
        given = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
        if given != (str(here), str(ranks)) or not _is_launched():
            if size != ranks:
                raise ValueError(
                    f"the first group of the backend shmcoll has {size} of {ranks} ranks, and every rank must join the "
                    f'job; call dist.new_group(backend="shmcoll") for all ranks before'
                )
            return startup.init(rank=rank, size=size, job=f"torch {name}")
    world = startup.init()
    if world.size < size:
        raise ValueError(
            f"this process is rank {world.rank} of a job of {world.size}, which it has joined before, and the group "
            f"has {size} ranks; call dist.init_process_group before shmcoll.init()"
        )
    return world


def _is_launched() -> bool:
    """Return whether a launcher whose own meeting place is used has started this process."""
    if "SHMCOLL_ARENA" in os.environ:
        return True
    try:
        return "TORCHELASTIC_RUN_ID" in os.environ and find_placement(os.environ) is not None
    except SeveralMachines:  # several agents of torchrun on this machine: step 2 has compared the machines
        return False


def _exchange(store: Any, key: str, rank: int, size: int, value: str, timeout: timedelta) -> list[str]:
    """Write this rank's value; return those of all ranks."""
    store.set(f"{key}/{rank}", value)
    keys = [f"{key}/{other}" for other in range(size)]
    try:
        store.wait(keys, timeout)
    except dist.DistNetworkError:
        raise  # the store itself has gone
    except RuntimeError as error:  # a FileStore raises nothing narrower
        missing = [other for other in range(size) if not store.check([keys[other]])]
        raise dist.DistBackendError(
            f"rank {rank}: ranks {missing} of {size} have not joined to make the group within "
            f"{timeout.total_seconds():g} s. If they are only slow, pass a larger timeout= to init_process_group or "
            f"new_group ({error})"
        ) from error
    return [to_text(value) for value in store.multi_get(keys)]


__all__ = ["join", "of_ranks"]
