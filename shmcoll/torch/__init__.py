"""The `torch.distributed` backend "shmcoll": the collectives of PyTorch on one machine, in shared memory.

    import shmcoll.torch
    dist.init_process_group("shmcoll")

Importing this module registers the backend; torch 2.14 and later find it without the import. The rest of a program
stays as it is. torchrun, shmrun and `torch.multiprocessing.spawn` start the ranks. `docs/guide/torch.md` has the table
of what is there.

process_group   the backend for torch up to 2.13: a `ProcessGroup`
backend         the backend for torch from 2.14 on: a `Backend`
group           what both are: the memory and the end of a group
calls           what both do: the collectives and messages that torch calls
profiling       their events in torch's profiler
direct_calls    their arguments, where a program calls a group itself
sparse          the reduction of sparse tensors
collectives     the same calls, blocking, with tensors as arrays
works           the handles of asynchronous calls
handles         torch's handles around those, from torch 2.14 on
futures         their futures, for which callbacks may wait
join            how the ranks of a group meet, through torch's store
shrink          going on without some ranks
flight_records  the flight recorder, as files for torch's analyser
tensors         the memory of tensors, as arrays
vllm, sglang    plug-ins for these engines
rows            rows of unequal number, for engines for inference
operators       torch's reductions, by their names in shmcoll
ops             collectives as operators of torch: `torch.ops.shmcoll`
timeouts        torch's function that sets the timeout of a group
errors          shmcoll's errors, as torch's
compiling       torch.compile, kept out of all of this
"""

import warnings
from datetime import timedelta
from typing import Any

try:
    import torch
except ModuleNotFoundError as missing:
    if missing.name == "torch":
        missing.add_note("shmcoll.torch needs PyTorch: pip install 'shmcoll[torch]'")
    raise
import numpy as np
import torch.distributed as dist

if np.lib.NumpyVersion(np.__version__) < "2.1.0":  # it cannot write memory that comes by DLPack
    raise ImportError(f"shmcoll.torch needs numpy 2.1 or later, not {np.__version__}: pip install 'shmcoll[torch]'")

from shmcoll.engine.system.tracebacks import borders
from shmcoll.torch import ops
from shmcoll.torch.compiling import keep_out
from shmcoll.torch.flight_records import write_flight_records
from shmcoll.torch.group import NAME, backend_of
from shmcoll.torch.ops.replacing import replace_collectives
from shmcoll.torch.shrink import shrink_group
from shmcoll.torch.timeouts import take_over


def register() -> None:
    """Register the backend with torch. Importing `shmcoll.torch` does this. Calling it again has no effect.

    Source: `torch.distributed.Backend.register_backend`, and the entry points `torch.distributed.backends`.
    """
    if NAME.upper() in dist.Backend._plugins:
        return
    _check_version(torch.__version__)
    take_over()
    if torch.__version__ >= (2, 14):
        from shmcoll.torch.backend import create
        from shmcoll.torch.handles import pass_on

        pass_on()
    else:
        from shmcoll.torch.process_group import create
    dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])


def _check_version(version: Any) -> None:
    """Warn of a torch with which nothing has been tested."""
    if not (2, 13) <= version < (2, 16):
        warnings.warn(
            f"shmcoll.torch is tested with torch 2.13 to 2.15, and this is torch {version}. It goes on, and may work; "
            f"if it does not, install 'shmcoll[torch]'",
            stacklevel=3,
        )


def empty(*size: Any, dtype: torch.dtype | None = None, group: Any = None) -> torch.Tensor:
    """Make a tensor in the memory that the ranks share. Not a collective.

    Collectives of such tensors, and of their parts, copy less. The memory is freed with the tensor. `torch.from_numpy`
    of an array that was made under `shmcoll.init().allocating()` has the same effect.

    Args:
        size: the shape, as for `torch.empty`.
        dtype: by default torch's default dtype.
        group: a group of this backend; the default group if None.

    Returns:
        A contiguous tensor of zeros on the CPU.

    Raises:
        TypeError: the group is not one of this backend, the dtype cannot be in shared memory, or `size` is not a shape.
        torch.distributed.DistBackendError: the ranks would take more than the heap allows (`shmrun --heap`,
            SHMCOLL_HEAP). It is an `shmcoll.ArenaError` as well.

    Example:
        >>> x = shmcoll.torch.empty(1024, 1024, dtype=torch.bfloat16)
        >>> dist.all_reduce(x)
    """
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return backend_of(group, "empty").allocate_tensor(shape, dtype)


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
        torch.distributed.DistBackendError: ranks have not joined in time, or have failed. The text and the attribute
            `missing` have their numbers in the group. The group has ended, as after any other timeout.
        TypeError: the group is not one of this backend.
    """
    backend_of(group, "monitored_barrier").monitored_barrier(timeout, wait_all_ranks)


# What `calls.py` calls has no border of its own: a blocking call would have nine
borders(__name__, fast=("collectives", "direct_calls", "errors", "operators", "profiling", "tensors"))
keep_out("shmcoll", but=("torch.ops",))
register()

__all__ = [
    "NAME",
    "backend_of",
    "empty",
    "monitored_barrier",
    "ops",
    "register",
    "replace_collectives",
    "shrink_group",
    "write_flight_records",
]
