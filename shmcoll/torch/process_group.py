"""The backend as torch up to 2.13 calls it: a subclass of `torch.distributed.ProcessGroup`.

Torch takes the place of its own group by what `create` returns. Its functions in Python call the methods below by name,
and its code in C++ (DDP, functional collectives) calls those that its trampoline knows. Methods with two names have the
second one for torch before 2.13.

Source: `torch/distributed/distributed_c10d.py` and `torch/csrc/distributed/c10d/PyProcessGroup.hpp` of torch 2.13.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from shmcoll.communicator import Communicator
from shmcoll.engine.layout import ANY
from shmcoll.errors import ShmcollError
from shmcoll.torch import collectives
from shmcoll.torch.collectives import Call, Tensors
from shmcoll.torch.errors import as_torch
from shmcoll.torch.join import join
from shmcoll.torch.tensors import Written, read, seconds
from shmcoll.torch.works import DONE, Pending


def create(options: Any, backend_options: Any = None) -> "ProcessGroup":
    """Make a group, as torch asks for it: `Backend.register_backend(..., extended_api=True)`.

    Args:
        options: the store, rank, size, timeout, name and ranks of the group (`_DistributedBackendOptions`).
        backend_options: must be None, because this backend has no options.

    Raises:
        TypeError: there are options.
    """
    if backend_options is not None:
        raise TypeError(f"the backend shmcoll has no options, got pg_options={backend_options!r}")
    return ProcessGroup(
        options.store, options.group_rank, options.group_size, options.global_ranks_in_group, options.timeout
    )


class ProcessGroup(dist.ProcessGroup):
    """A torch group over a communicator of its own."""

    def __init__(self, store: Any, rank: int, size: int, members: Sequence[int], timeout: timedelta):
        super().__init__(rank, size)
        self._store = store
        self._names = {"name": "", "desc": ""}
        self.comm: Communicator = _blocking(partial(join, store, rank, size, members, timeout))
        self.set_timeout(timeout)

    # --- collectives --------------------------------------------------------------------------------------------------

    def allreduce(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        opts = opts or dist.AllreduceOptions()
        return self._made("all_reduce", opts, tensors, collectives.all_reduce(self.comm, tensors, opts.reduceOp))

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Tensors, opts: Any) -> dist.Work:
        call = collectives.reduce(self.comm, tensors, opts.rootRank, opts.reduceOp)
        return self._made("reduce", opts, tensors, call)

    def broadcast(self, tensors: Tensors, opts: Any) -> dist.Work:
        return self._made("broadcast", opts, tensors, collectives.broadcast(self.comm, tensors, opts.rootRank))

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> dist.Work:
        call = collectives.all_gather(self.comm, outputs, inputs)
        return self._made("all_gather", opts, [one for lists in outputs for one in lists], call)

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> dist.Work:
        """Gather tensor i of each rank r into list r, at i."""
        if any(len(lists) != len(inputs) for lists in outputs):
            raise ValueError("all_gather_coalesced: each list must have a tensor for each tensor of the input")
        return self.allgather([list(lists) for lists in zip(*outputs, strict=True)], inputs, opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        call = collectives.all_gather_single(self.comm, outputs, inputs)
        return self._made("all_gather_into_tensor", opts, outputs, call)

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> dist.Work:
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> dist.Work:
        call = collectives.gather(self.comm, outputs, inputs, opts.rootRank)
        return self._made("gather", opts, [one for lists in outputs for one in lists], call)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> dist.Work:
        call = collectives.scatter(self.comm, outputs, inputs, opts.rootRank)
        return self._made("scatter", opts, outputs, call)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> dist.Work:
        opts = opts or dist.ReduceScatterOptions()
        call = collectives.reduce_scatter(self.comm, outputs, inputs, opts.reduceOp)
        return self._made("reduce_scatter", opts, outputs, call)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        opts = opts or dist.ReduceScatterOptions()
        call = collectives.reduce_scatter_single(self.comm, outputs, inputs, opts.reduceOp)
        return self._made("reduce_scatter_tensor", opts, outputs, call)

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> dist.Work:
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        return self._made("all_to_all", opts, outputs, collectives.all_to_all(self.comm, outputs, inputs))

    def all_to_all_single(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        recv_rows: Sequence[int],
        send_rows: Sequence[int],
        opts: Any = None,
    ) -> dist.Work:
        call = collectives.all_to_all_single(self.comm, output, tensor, recv_rows, send_rows)
        return self._made("all_to_all_single", opts, [output], call)

    def barrier(self, opts: Any = None) -> dist.Work:
        return self._made("barrier", opts, [], self.comm.barrier)

    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def monitored_barrier(self, timeout: timedelta | float | None = None, wait_all_ranks: bool = False) -> None:
        """Wait for all ranks within a timeout of this call; see `shmcoll.torch.monitored_barrier`."""
        usual, limit = self.comm.timeout, seconds(timeout)
        self.comm.timeout = limit or usual
        try:
            _blocking(self.comm.barrier)
        finally:
            self.comm.timeout = usual

    # --- messages -----------------------------------------------------------------------------------------------------

    def send(self, tensors: Tensors, rank: int, tag: int) -> dist.Work:
        tensor = collectives.single("send", tensors)
        return Pending("send", self.comm.send(read(tensor), rank, tag, async_op=True), tensors)

    def recv(self, tensors: Tensors, rank: int, tag: int) -> dist.Work:
        tensor, written = collectives.single("recv", tensors), Written()
        array = written.array(tensor)

        def finish(received: Any) -> int:
            elements, source, _ = received
            if elements.size != array.size:
                raise ValueError(
                    f"recv: rank {source} has sent {elements.size} elements, and the tensor has {array.size}"
                )
            written.finish()
            return int(source)

        return Pending("recv", self.comm.recv(array, rank, tag, async_op=True), tensors, finish)

    def recv_anysource(self, tensors: Tensors, tag: int) -> dist.Work:
        return self.recv(tensors, ANY, tag)

    # --- the group ----------------------------------------------------------------------------------------------------

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the limit of each wait from now on."""
        self.comm.timeout = seconds(timeout) or self.comm.timeout

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Leave the group: pending calls are completed, posted receives without a message are withdrawn."""
        self.comm.close()

    def abort(self) -> None:
        """End the group: pending and later calls of every rank raise."""
        self.comm.abort("torch.distributed has aborted the group")
        self.comm.close()

    def getBackendName(self) -> str:
        return "shmcoll"

    name = getBackendName

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

    # Torch asks its own groups for a backend of each device; this group is its only backend
    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: Any) -> "ProcessGroup":
        if torch.device(device).type != "cpu":
            raise RuntimeError(
                f"No backend type associated with device type {device}: this group has tensors of the CPU"
            )
        return self

    bound_device_id = None
    supports_splitting = supports_coalescing = supports_time_estimate = False

    def _has_hooks(self) -> bool:
        return False

    def _wait_for_pending_works(self) -> None:
        pass  # what torch calls before hooks are removed; there are none

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

    def _register_on_completion_hook(self, hook: Any) -> NoReturn:
        raise NotImplementedError("the backend shmcoll has no completion hooks; use Work.get_future().then")

    # --- making calls -------------------------------------------------------------------------------------------------

    def _made(self, operation: str, opts: Any, tensors: Tensors, call: Call) -> dist.Work:
        """Make a call, or have the worker make it."""
        if opts is not None and not opts.asyncOp:
            _blocking(call)
            return DONE
        return Pending(operation, self.comm._dispatcher.worker.submit(call), tensors)


def _blocking(call: Call) -> Any:
    """Make a call; its errors are torch's as well."""
    try:
        return call()
    except ShmcollError as error:
        raise as_torch(error) from error.__cause__
