"""The `torch.distributed` backend "shmcoll": the collectives of PyTorch on one machine, in shared memory.

    import shmcoll.torch
    dist.init_process_group("shmcoll")

Importing this module registers the backend. The rest of a program stays as it is. torchrun, shmrun and
`torch.multiprocessing.spawn` start the ranks. `docs/guide/torch.md` has the table of what is there.

process_group   what torch calls: a `ProcessGroup`, for torch up to 2.13
collectives     the same calls, blocking, with tensors as arrays
works           the handles of asynchronous calls
join            how the ranks of a group meet, through torch's store
tensors         the memory of tensors, as arrays
operators       torch's reductions, by their names in shmcoll
errors          shmcoll's errors, as torch's
"""

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from shmcoll.torch.process_group import ProcessGroup, create

NAME = "shmcoll"


def register() -> None:
    """Register the backend with torch. Importing `shmcoll.torch` does this. Calling it again has no effect.

    Source: `torch.distributed.Backend.register_backend`, and the entry points `torch.distributed.backends`.
    """
    if NAME.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])


def monitored_barrier(
    group: Any = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until every rank of a group has called it; report the ranks that have not.

    `torch.distributed.monitored_barrier` of torch 2.13 and before accepts no backend except gloo; this takes its place.

    Args:
        group: a group of this backend; the default group if None.
        timeout: the limit of the wait, as a timedelta or in seconds; by default that of the group.
        wait_all_ranks: has no effect, because all missing ranks are always reported.

    Raises:
        torch.distributed.DistBackendError: ranks have not come in time, or have failed. The text and the attribute
            `missing` have their numbers in the group. The group has ended, as after any other timeout.
        TypeError: the group is not one of this backend.
    """
    found = dist.group.WORLD if group is None else group
    if not isinstance(found, ProcessGroup):
        raise TypeError(f"monitored_barrier: the group must be one of the backend {NAME!r}, got {found!r}")
    found.monitored_barrier(timeout, wait_all_ranks)


register()

__all__ = ["NAME", "ProcessGroup", "monitored_barrier", "register"]
