"""A torch group over a communicator: its calls, its memory, and how it ends.

`process_group.py` and `backend.py` add torch's own base class, and what only that kind of backend has.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, Self

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

from shmcoll.communicator import Communicator
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.startup.join import init
from shmcoll.torch.calls import GroupCalls
from shmcoll.torch.errors import error_type, raising
from shmcoll.torch.join import of_ranks
from shmcoll.torch.tensors import empty, seconds

#: the name of the backend
NAME = "shmcoll"


class Group(GroupCalls):
    """A group that torch may use. The class after it in the bases of a subclass is torch's.

    `comm` makes the collectives, and `messages` the messages, because the worker of a communicator makes its calls one
    after the other: a send that a program issues after an asynchronous collective must not wait for that collective,
    which may wait for the receiver.
    """

    def __init__(self, comm: Communicator, store: Any, timeout: timedelta):
        super().__init__(comm.rank, comm.size)  # type: ignore[call-arg]  # of torch's class
        self.comm = comm
        self.messages = raising(comm._for_messages)
        for one in (self.comm, self.messages):
            one._dispatcher.failures.how_to_wait_longer = "Pass a larger timeout= to init_process_group or new_group"
            one._dispatcher.failures.how_to_call_beside = "torch.distributed.new_group()"
            one._dispatcher.worker.unseen = None  # the program has handles of torch
        self._store = store
        self.set_timeout(timeout)

    def getBackendName(self) -> str:
        return NAME

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the limit of each wait from now on."""
        self._timeout = timeout
        for one in (self.comm, self.messages):
            one.timeout = seconds(timeout) or one.timeout

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self) -> int:
        """Return the number of the last collective."""
        return int(self.comm._dispatcher.words[c.SEQUENCE // WORD])

    # --- memory -------------------------------------------------------------------------------------------------------

    def supports_tensor_alloc(self, device: Any) -> bool:
        """Return whether `allocate_tensor` makes tensors of a device."""
        return not isinstance(device, torch.device) or device.type == "cpu"

    def allocate_tensor(
        self, size: int | Sequence[int], dtype: torch.dtype | None = None, device: Any = None
    ) -> torch.Tensor:
        """Return a tensor of zeros in the memory that the ranks share; see `shmcoll.torch.empty`."""
        if not self.supports_tensor_alloc(device):
            raise TypeError(f"allocate_tensor: the backend shmcoll has tensors of the CPU, not of {device}")
        made: torch.Tensor = raising(partial(empty, self.comm, size, dtype or torch.get_default_dtype()))
        return made

    # --- the end ------------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Leave the group: pending calls are completed, posted receives without a message are withdrawn."""
        for one in (self.comm, self.messages):
            one.close()

    def abort(self) -> None:
        """End the group: pending and later calls of every rank raise."""
        for one in (self.comm, self.messages):
            if not one._dispatcher.failures.is_shut:
                one.abort("torch.distributed has aborted the group")
                one.close()

    def get_error(self) -> Any:
        """Return torch's `ErrorType` for the state of the group. Not a collective, and it waits for nothing.

        Returns:
            SUCCESS; TIMEOUT if a wait was too long; REMOTE_ERROR if a rank has failed or ended the group; COMM_ERROR
            if ranks have made different calls, or this rank has left the group.
        """
        found = error_type(self.comm)
        return error_type(self.messages) if found == ErrorType.SUCCESS else found

    def shrink(self, ranks_to_exclude: Sequence[int], shrink_flags: int = 0, opts_override: Any = None) -> Self:
        """Return the group without some of its ranks. The ranks that remain call it, with the same arguments.

        Args:
            ranks_to_exclude: numbers of ranks in this group. They need not be alive.
            shrink_flags: `SHRINK_ABORT` (1) ends this group first, so that pending calls raise.
            opts_override: must be None, because this backend has no options.

        Raises:
            TypeError: there are options.
            torch.distributed.DistBackendError: a rank that remains has failed, or has not called it in time.
        """
        no_options(opts_override)
        comm, excluded = self.comm, sorted(ranks_to_exclude)
        remaining = [number for rank, number in enumerate(comm.ranks) if rank not in excluded]
        name = f"{comm._subgroup_name} without {excluded}"
        if shrink_flags:
            self.abort()
        made = raising(lambda: of_ranks(init(), remaining, name))
        return type(self)(made, self._store, self._timeout)

    # --- not there ----------------------------------------------------------------------------------------------------

    def _register_on_completion_hook(self, hook: Any) -> NoReturn:
        raise NotImplementedError("the backend shmcoll has no completion hooks; use Work.get_future().then")

    def _has_hooks(self) -> bool:
        return False

    def _wait_for_pending_works(self) -> None:
        pass  # what torch calls before hooks are removed; there are none


def no_options(options: Any) -> None:
    """Raise `TypeError` for options of a group."""
    if options is not None:
        raise TypeError(f"the backend shmcoll has no options, got pg_options={options!r}")


def backend_of(group: Any = None, operation: str = "backend_of") -> Group:
    """Return the part of a torch group that is this backend's: `comm`, `get_error`, `abort` and more.

    Up to torch 2.13 that is the group itself.

    Args:
        group: a torch group; the default group if None.
        operation: the caller, for the message.

    Raises:
        TypeError: the group has no such part.
    """
    found = dist.distributed_c10d._get_default_group() if group is None else group
    if isinstance(found, dist.ProcessGroup):
        try:
            backend = found._get_backend(torch.device("cpu"))
        except RuntimeError:  # it has none for the CPU
            backend = None
        if isinstance(backend, Group):
            return backend
    raise TypeError(f"{operation}: the group must be one of the backend {NAME!r}, got {found!r}")


__all__ = ["NAME", "Group", "backend_of", "no_options"]
