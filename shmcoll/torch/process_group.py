"""The backend for torch up to 2.13: a subclass of `torch.distributed.ProcessGroup`.

Torch takes the place of its own group by what `create` returns. So this group is its own and only backend, for tensors
of the CPU, and it answers the questions that torch asks its groups.

Source: `torch/distributed/distributed_c10d.py` and `torch/csrc/distributed/c10d/PyProcessGroup.hpp` of torch 2.13.
"""

import sys
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from shmcoll.communicator import Communicator
from shmcoll.torch.errors import raising
from shmcoll.torch.group import NAME, Group, no_options
from shmcoll.torch.join import join


def create(options: Any, backend_options: Any = None) -> "ProcessGroup":
    """Make a group, as torch asks for it: `Backend.register_backend(..., extended_api=True)`.

    Args:
        options: the store, rank, size, timeout, name and ranks of the group (`_DistributedBackendOptions`).
        backend_options: must be None, because this backend has no options.

    Raises:
        TypeError: there are options.
        ValueError: the group is to have another backend as well.
    """
    no_options(backend_options)
    _check_alone()
    ranks = options.global_ranks_in_group
    meeting = partial(join, options.store, options.group_rank, options.group_size, ranks, options.timeout)
    return ProcessGroup(raising(meeting), options.store, options.timeout)


def _check_alone() -> None:
    """Raise if torch makes a group of several backends: it would drop the others without a word. It passes the list of
    backends to none of them, so the list is read where torch keeps it, in the caller."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_new_process_group_helper":
        frame = frame.f_back  # type: ignore[assignment]
    config = frame.f_locals.get("backend_config") if frame is not None else None
    wanted = config.get_device_backend_map() if config is not None else {}
    if set(wanted.values()) - {NAME}:
        raise ValueError(
            f"torch {torch.__version__} makes no group of several backends with {NAME}, and this one is {config}. Make "
            f'the group of the other backend, such as dist.init_process_group("nccl"), and beside it a group for '
            f'tensors of the CPU: dist.new_group(backend="{NAME}"). From torch 2.14 on, one group has both'
        )


class ProcessGroup(Group, dist.ProcessGroup):
    """A torch group that is its own backend."""

    bound_device_id = None
    supports_splitting = supports_coalescing = supports_time_estimate = False
    supports_shrinking = False  # `torch.distributed.shrink_group` of 2.13 needs another class: `shmcoll.torch.shrink`

    def __init__(self, comm: Communicator, store: Any, timeout: timedelta):
        super().__init__(comm, store, timeout)
        self._names = {"name": "", "desc": ""}

    def name(self) -> str:
        return NAME

    def getRank(self) -> int:
        return self.comm.rank

    def getSize(self) -> int:
        return self.comm.size

    def getGroupName(self) -> str:
        return self._names["name"]

    def setGroupName(self, name: str) -> None:
        self._names["name"] = name

    def getGroupDesc(self) -> str:
        return self._names["desc"]

    def setGroupDesc(self, desc: str) -> None:
        self._names["desc"] = desc

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name, group_desc = property(getGroupName), property(getGroupDesc)

    def get_group_store(self) -> Any:
        return self._store

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: Any) -> "ProcessGroup":
        if torch.device(device).type != "cpu":
            raise RuntimeError(
                f"No backend type associated with device type {device}: this group has tensors of the CPU"
            )
        return self

    # --- not there ----------------------------------------------------------------------------------------------------

    def _start_coalescing(self, device: Any) -> NoReturn:
        raise NotImplementedError(
            "the backend shmcoll does not coalesce messages of a device; use dist.batch_isend_irecv, or "
            "_coalescing_manager without a device"
        )

    def split_group(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("the backend shmcoll does not split groups; use dist.new_group")

    def merge_remote_group(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("the backend shmcoll does not merge groups; use dist.new_group")


__all__ = ["ProcessGroup", "create"]
