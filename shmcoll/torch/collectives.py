"""torch's collectives with the tensors of one rank, as calls of a communicator.

Each function checks its arguments, and returns the call, which blocks. So a mistake of this rank is raised before
anything is sent, in the thread that makes it. The call may then be made at once, or by the worker of the communicator.

Torch checks lengths of lists and types in Python for most functions; what reaches a backend unchecked is checked here,
with torch's types of errors and, where it has any, the words of its own backends.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from shmcoll.communicator import Communicator
from shmcoll.torch import sparse
from shmcoll.torch.operators import operator_of, reduce_with
from shmcoll.torch.tensors import Written, read, read_flat

Call = Callable[[], Any]
Tensors = Sequence[torch.Tensor]


def all_reduce(comm: Communicator, tensors: Tensors, op: Any) -> Call:
    operator, written = operator_of(op), Written()
    if len(tensors) == 1 and tensors[0].layout is torch.sparse_coo:
        return sparse.all_reduce(comm, tensors[0], operator)
    arrays = [written.array(tensor) for tensor in tensors]

    def call() -> None:
        for array in arrays:
            if operator == "avg":
                reduce_with(partial(comm.all_reduce, array, out=array), operator, array, array, comm.size)
            else:  # the most common call takes the shortest way
                comm.all_reduce(array, operator, out=array)
        written.finish()

    return call


def reduce(comm: Communicator, tensors: Tensors, root: int, op: Any) -> Call:
    operator, written = operator_of(op), Written()
    tensor = single("reduce", tensors)
    array = written.array(tensor) if comm.rank == root else read(tensor)
    out = array if comm.rank == root else None

    def call() -> None:
        reduce_with(partial(comm.reduce, array, root, out=out), operator, array, out, comm.size)
        written.finish()

    return call


def broadcast(comm: Communicator, tensors: Tensors, root: int) -> Call:
    written = Written()
    tensor = single("broadcast", tensors)
    array = read(tensor) if comm.rank == root else written.array(tensor)

    def call() -> None:
        comm.broadcast(array, root)
        written.finish()

    return call


def all_gather(comm: Communicator, outputs: Sequence[Tensors], inputs: Tensors) -> Call:
    if len(outputs) != len(inputs):
        raise ValueError(f"all_gather: there are {len(outputs)} lists for {len(inputs)} tensors")
    written = Written()
    pairs = []
    for lists, tensor in zip(outputs, inputs, strict=True):
        _check_count("all_gather", lists, comm.size)
        _check_alike("all_gather", tensor, lists)
        pairs.append((read(tensor), [written.array(one) for one in lists]))

    def call() -> None:
        for array, arrays in pairs:
            comm.all_gather(array, out=arrays)
        written.finish()

    return call


def all_gather_single(comm: Communicator, outputs: Tensors, inputs: Tensors) -> Call:
    written = Written()
    pairs = []
    for output, tensor in zip(outputs, inputs, strict=True):
        if output.dtype != tensor.dtype:
            raise TypeError("output tensor must have the same type as input tensor")
        if output.numel() != tensor.numel() * comm.size:
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
        pairs.append((read_flat(tensor), written.flat(output)))

    def call() -> None:
        for array, out in pairs:
            comm.all_gather(array, out=out)
        written.finish()

    return call


def gather(comm: Communicator, outputs: Sequence[Tensors], inputs: Tensors, root: int) -> Call:
    written = Written()
    tensor = single("gather", inputs)
    array, arrays = read(tensor), None
    if comm.rank == root:
        lists = single("gather", outputs)
        _check_count("gather", lists, comm.size)
        _check_alike("gather", tensor, lists)
        arrays = [written.array(one) for one in lists]

    def call() -> None:
        comm.gather(array, root, out=arrays)
        written.finish()

    return call


def scatter(comm: Communicator, outputs: Tensors, inputs: Sequence[Tensors], root: int) -> Call:
    written = Written()
    output = single("scatter", outputs)
    out, arrays = written.array(output), None
    if comm.rank == root:
        lists = single("scatter", inputs)
        _check_count("scatter", lists, comm.size)
        _check_alike("scatter", output, lists)
        arrays = [read(one) for one in lists]

    def call() -> None:
        comm.scatter(arrays, root, out=out)
        written.finish()

    return call


def reduce_scatter(comm: Communicator, outputs: Tensors, inputs: Sequence[Tensors], op: Any) -> Call:
    operator, written = operator_of(op), Written()
    output, lists = single("reduce_scatter", outputs), single("reduce_scatter", inputs)
    _check_count("reduce_scatter", lists, comm.size)
    _check_alike("reduce_scatter", output, lists)
    out, arrays = written.array(output), [read(one) for one in lists]

    def call() -> None:
        reduce_with(partial(comm.reduce_scatter, arrays, out=out), operator, out, out, comm.size)
        written.finish()

    return call


def reduce_scatter_single(comm: Communicator, outputs: Tensors, inputs: Tensors, op: Any) -> Call:
    operator, written = operator_of(op), Written()
    pairs = []
    for output, tensor in zip(outputs, inputs, strict=True):
        if output.dtype != tensor.dtype:
            raise TypeError("input tensor must be the same type as the output tensor.")
        if output.numel() * comm.size != tensor.numel():
            raise ValueError("input tensor must be the same size as output size times world size")
        pairs.append((read_flat(tensor), written.flat(output)))

    def call() -> None:
        for array, out in pairs:
            reduce_with(partial(comm.reduce_scatter, array, out=out), operator, array, out, comm.size)
        written.finish()

    return call


def all_to_all(comm: Communicator, outputs: Tensors, inputs: Tensors) -> Call:
    """Return the call for lists. It is always the one with counts: ranks see only their own lengths."""
    _check_count("all_to_all", outputs, comm.size)
    _check_count("all_to_all", inputs, comm.size)
    _check_types("all_to_all", outputs[0], [*outputs, *inputs])
    for one in (*outputs, *inputs):
        read(one)  # which refuses what has no memory of the CPU
    sent = torch.cat([one.detach().reshape(-1) for one in inputs])
    received = sent.new_empty(sum(one.numel() for one in outputs))
    array, out = read(sent), read(received)
    send_counts, recv_counts = [one.numel() for one in inputs], [one.numel() for one in outputs]

    def call() -> None:
        comm.all_to_all_v(array, send_counts, recv_counts=recv_counts, out=out)
        for output, part in zip(outputs, received.split(recv_counts), strict=True):
            output.detach().copy_(part.view(output.shape))

    return call


def all_to_all_single(
    comm: Communicator, output: torch.Tensor, tensor: torch.Tensor, recv_rows: Sequence[int], send_rows: Sequence[int]
) -> Call:
    if output.dtype != tensor.dtype:
        raise TypeError("output tensor must have the same type as input tensor")
    if recv_rows or send_rows:
        recv_counts, send_counts = _counts(output, recv_rows, comm.size), _counts(tensor, send_rows, comm.size)
    else:
        _check_equal_parts(output, comm.size)
        _check_equal_parts(tensor, comm.size)
    written = Written()
    array, out = read_flat(tensor), written.flat(output)

    def call() -> None:
        if recv_rows or send_rows:
            comm.all_to_all_v(array, send_counts, recv_counts=recv_counts, out=out)
        else:
            comm.all_to_all(array, out=out)
        written.finish()

    return call


def single(operation: str, items: Sequence[Any]) -> Any:
    """Return the one element of a list."""
    if len(items) != 1:
        raise ValueError(f"{operation}: requires a single-element list, got {len(items)} elements")
    return items[0]


def _counts(tensor: torch.Tensor, rows: Sequence[int], size: int) -> list[int]:
    """Return how many elements of a tensor belong to each rank."""
    if not rows:
        _check_equal_parts(tensor, size)
        return [tensor.numel() // size] * size
    length = tensor.shape[0] if tensor.ndim else 0
    if len(rows) != size:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(rows) != length:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return [count * (tensor.numel() // length if length else 0) for count in rows]


def _check_equal_parts(tensor: torch.Tensor, size: int) -> None:
    if tensor.is_nested:
        read(tensor)  # which refuses it
    if tensor.ndim == 0 or tensor.shape[0] % size:
        raise RuntimeError("Tensor's dim 0 does not divide equally across group size")


def _check_count(operation: str, tensors: Tensors, size: int) -> None:
    if len(tensors) != size:
        raise ValueError(f"{operation}: the list must have one tensor for each of {size} ranks, got {len(tensors)}")


def _check_types(operation: str, tensor: torch.Tensor, tensors: Tensors) -> None:
    for one in tensors:
        if one.dtype != tensor.dtype:
            raise TypeError(f"{operation}: invalid tensor type (expected {tensor.dtype}, got {one.dtype})")


def _check_alike(operation: str, tensor: torch.Tensor, tensors: Tensors) -> None:
    _check_types(operation, tensor, tensors)
    for one in tensors:
        if one.is_nested or tensor.is_nested:
            read(one if one.is_nested else tensor)  # which refuses it
        if one.shape != tensor.shape:
            raise ValueError(f"{operation}: invalid tensor size (expected {list(tensor.shape)}, got {list(one.shape)})")
