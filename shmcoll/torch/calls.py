"""The collectives and messages of a torch group, over a communicator.

Torch finds the methods by name: its functions in Python call them, and its code in C++ (DDP, functional collectives)
calls those that its trampolines know. Programs may call them directly, with a root or an operator in the place of
options, and a tensor in the place of a list of one (`direct_calls.py`). Methods with two names have the second one for
torch before 2.13.

Source: `torch/distributed/distributed_c10d.py` of torch 2.13; `PyProcessGroup.hpp` and `PyBackend.hpp` in
`torch/csrc/distributed/c10d`.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from shmcoll.communicator import Communicator
from shmcoll.engine.layout import ANY
from shmcoll.errors import CallNotAllowed
from shmcoll.profiling import recorder
from shmcoll.profiling.front_ends import named
from shmcoll.torch import collectives, profiling
from shmcoll.torch.collectives import Call, Tensors
from shmcoll.torch.direct_calls import first, listed, options
from shmcoll.torch.errors import raising, refused
from shmcoll.torch.tensors import Written, read, seconds
from shmcoll.torch.works import DONE, Pending, submit


class GroupCalls:
    """The calls of a group; see `Group` for its communicators."""

    comm: Communicator
    messages: Communicator

    # --- collectives --------------------------------------------------------------------------------------------------

    def allreduce(self, tensors: Tensors, opts: Any = None, timeout: Any = None, op: Any = None) -> dist.Work:
        if type(opts) is not dist.AllreduceOptions:
            opts = options(dist.AllreduceOptions, opts, reduceOp=first(op, opts))
            tensors = listed(tensors)
        return self._made("all_reduce", opts, tensors, collectives.all_reduce(self.comm, tensors, opts.reduceOp))

    allreduce_coalesced = allreduce

    def reduce(
        self, tensors: Tensors, opts: Any = None, op: Any = None, timeout: Any = None, root: Any = None
    ) -> dist.Work:
        opts = options(dist.ReduceOptions, opts, rootRank=first(root, opts), reduceOp=op)
        tensors = listed(tensors)
        call = collectives.reduce(self.comm, tensors, opts.rootRank, opts.reduceOp)
        return self._made("reduce", opts, tensors, call)

    def broadcast(self, tensors: Tensors, opts: Any = None, timeout: Any = None, root: Any = None) -> dist.Work:
        opts = options(dist.BroadcastOptions, opts, rootRank=first(root, opts))
        tensors = listed(tensors)
        return self._made("broadcast", opts, tensors, collectives.broadcast(self.comm, tensors, opts.rootRank))

    def allgather(self, outputs: Any, inputs: Tensors, opts: Any = None, timeout: Any = None) -> dist.Work:
        outputs, inputs = ([outputs], [inputs]) if isinstance(inputs, torch.Tensor) else (outputs, inputs)
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

    def gather(
        self, outputs: Any, inputs: Tensors, opts: Any = None, timeout: Any = None, root: Any = None
    ) -> dist.Work:
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs] if outputs else [], [inputs]
        opts = options(dist.GatherOptions, opts, rootRank=first(root, opts))
        call = collectives.gather(self.comm, outputs, inputs, opts.rootRank)
        return self._made("gather", opts, [one for lists in outputs for one in lists], call)

    def scatter(
        self, outputs: Tensors, inputs: Any, opts: Any = None, timeout: Any = None, root: Any = None
    ) -> dist.Work:
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs] if inputs else []
        opts = options(dist.ScatterOptions, opts, rootRank=first(root, opts))
        call = collectives.scatter(self.comm, outputs, inputs, opts.rootRank)
        return self._made("scatter", opts, outputs, call)

    def reduce_scatter(
        self, outputs: Tensors, inputs: Any, opts: Any = None, timeout: Any = None, op: Any = None
    ) -> dist.Work:
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        opts = options(dist.ReduceScatterOptions, opts, reduceOp=first(op, opts))
        call = collectives.reduce_scatter(self.comm, outputs, inputs, opts.reduceOp)
        return self._made("reduce_scatter", opts, outputs, call)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        opts = options(dist.ReduceScatterOptions, opts)
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
        timeout: Any = None,
    ) -> dist.Work:
        call = collectives.all_to_all_single(self.comm, output, tensor, recv_rows, send_rows)
        return self._made("all_to_all_single", opts, [output], call)

    def barrier(self, opts: Any = None, timeout: Any = None) -> dist.Work:
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
            raising(self.comm.barrier)
        finally:
            self.comm.timeout = usual

    # --- messages -----------------------------------------------------------------------------------------------------

    def send(self, tensors: Tensors, rank: int, tag: int) -> dist.Work:
        tensor = collectives.single("send", tensors)
        return self._begun(
            "send", lambda: Pending("send", self.messages.send(read(tensor), rank, tag, async_op=True), tensors)
        )

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

        return self._begun(
            "recv" if rank != ANY else "recvAnySource",
            lambda: Pending("recv", self.messages.recv(array, rank, tag, async_op=True), tensors, finish),
        )

    def recv_anysource(self, tensors: Tensors, tag: int) -> dist.Work:
        return self.recv(tensors, ANY, tag)

    # --- making calls -------------------------------------------------------------------------------------------------

    def _made(self, operation: str, opts: Any, tensors: Tensors, call: Call) -> dist.Work:
        """Make a call, or have the worker make it."""
        if recorder.current:
            call = named(f"torch.distributed.{operation}", call)
        try:
            if not getattr(
                opts, "asyncOp", True
            ):  # a call without options, such as `group.barrier(limit)`, returns a handle
                raising(partial(profiling.recorded, operation, tensors, call) if profiling.is_on() else call)
                return DONE
            if profiling.is_on():
                return profiling.begun(operation, lambda: submit(self.comm, operation, call, tensors))
            return submit(self.comm, operation, call, tensors)
        except CallNotAllowed as refusal:
            raise refused(self.comm, operation, refusal) from None

    def _begun(self, operation: str, post: Callable[[], Pending]) -> Pending:
        """Begin a message."""
        if recorder.current:
            post = named(f"torch.distributed.{operation}", post)
        try:
            return profiling.begun(operation, post) if profiling.is_on() else post()
        except CallNotAllowed as refusal:
            raise refused(self.comm, operation, refusal) from None


__all__ = ["GroupCalls"]
