"""The backend for torch from 2.14 on: a subclass of torch's `Backend`, one for each group.

Torch keeps its own `ProcessGroup`, which has a backend for each type of device. So one group may have this backend for
tensors of the CPU and NCCL for those of a GPU: "cpu:shmcoll,cuda:nccl".

Source: `torch/csrc/distributed/c10d/PyBackend.hpp` of torch 2.14.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch._C import _distributed_c10d as c10d

from shmcoll.torch.errors import raising
from shmcoll.torch.group import NAME, Group, no_options
from shmcoll.torch.join import join


def create(options: Any, backend_options: Any = None) -> "Backend":
    """Make a backend, as torch asks for it: `Backend.register_backend(..., extended_api=True)`.

    Args:
        options: the store, rank, size, timeout, name and ranks of the group (`_DistributedBackendOptions`).
        backend_options: must be None, because this backend has no options.

    Raises:
        TypeError: there are options.
    """
    no_options(backend_options)
    ranks = options.global_ranks_in_group
    meeting = partial(join, options.store, options.group_rank, options.group_size, ranks, options.timeout)
    return Backend(raising(meeting), options.store, options.timeout)


class Backend(Group, c10d.Backend):
    """The part of a torch group that is for tensors of the CPU."""

    supports_splitting = supports_shrinking = True
    supports_coalescing = supports_time_estimate = supports_reconfigure = supports_window = False

    @property
    def options(self) -> Any:
        return c10d.Backend.Options(NAME, timeout=self._timeout)

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        """Wait for all ranks within the timeout of this call; see `shmcoll.torch.monitored_barrier`."""
        super().monitored_barrier(getattr(opts, "timeout", opts), wait_all_ranks)

    def split(self, store: Any, ranks: Sequence[int], opts: Any = None) -> "Backend":
        """Return the backend of some ranks of this group, which `torch.distributed.split_group` asks for.

        Args:
            store: a store for these ranks alone.
            ranks: their numbers in this group.
            opts: the options of the new group, of which only the timeout is read.

        Raises:
            ValueError: this rank is not among them.
        """
        if self.comm.rank not in ranks:
            raise ValueError(f"split: rank {self.comm.rank} is not among {list(ranks)}; only these ranks call it")
        timeout = getattr(opts, "_timeout", None) or self._timeout
        place = list(ranks).index(self.comm.rank)
        made = raising(partial(join, store, place, len(ranks), list(ranks), timeout))
        return Backend(made, store, timeout)

    def _set_sequence_number_for_group(self) -> None:
        pass  # the collectives of a group are numbered from its beginning


__all__ = ["Backend", "create"]
