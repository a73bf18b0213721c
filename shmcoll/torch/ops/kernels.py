"""What the operators do with tensors in memory.

The usual call is made by the native entry, which reads the tensors itself. What it leaves to Python is checked here,
and made as `torch.distributed` makes it (`collectives.py`). All ranks have the same result by either way.

Arguments come from torch's dispatcher: tensors of any device and layout, exact ints, strings and lists.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import is_grad_enabled
from torch.autograd.graph import increment_version

from shmcoll.collectives import OPERATION_NAMES, RECORDS
from shmcoll.communicator import Communicator
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import REDUCTIONS
from shmcoll.torch import collectives
from shmcoll.torch.errors import as_torch, raising
from shmcoll.torch.ops import shapes
from shmcoll.torch.ops.groups import entries, group_of

Splits = Sequence[int] | None

#: reductions by name, as torch has them
OPERATORS = {
    name: dist.ReduceOp(getattr(dist.ReduceOp, known))
    for name, known in zip(
        ("sum", "avg", "prod", "min", "max", "band", "bor", "bxor"),
        ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"),
        strict=True,
    )
}

ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = (
    RECORDS[name].code for name in ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")
)
CODES = {name: REDUCTIONS[name] for name in OPERATORS}
FLAT = 1  # a further argument of the entry: the shapes of x and out do not matter

# --- in place ---------------------------------------------------------------------------------------------------------


def all_reduce_(x: torch.Tensor, group: int, op: str = "sum") -> None:
    if is_grad_enabled():
        _note_change("all_reduce_", x)
    entry, status = entries.get(group), int(c.NEEDS_PYTHON)
    if entry is not None:
        try:  # as in `enter`, whose frame would take as long as the entry
            status = entry(ALL_REDUCE, CODES.get(op, 0), 0, x, x)
        except BaseException:
            _left(group, ALL_REDUCE)
            raise
    if status:
        comm = checked("all_reduce_", status, group, x, x)
        raising(collectives.all_reduce(comm, [x], _operator("all_reduce_", op)))


def broadcast_(x: torch.Tensor, group: int, root: int = 0) -> None:
    if is_grad_enabled():
        _note_change("broadcast_", x)
    if status := enter(BROADCAST, x, x, group, 0, root):
        comm = checked("broadcast_", status, group, x, x)
        raising(collectives.broadcast(comm, [x], root))


def all_gather_into_tensor_(out: torch.Tensor, x: torch.Tensor, group: int) -> None:
    if is_grad_enabled():
        _note_change("all_gather_into_tensor_", out)
    if status := enter(ALL_GATHER, x, out, group, 0, 0, FLAT):
        comm = checked("all_gather_into_tensor_", status, group, x, out)
        raising(collectives.all_gather_single(comm, [out], [x]))


def reduce_scatter_tensor_(out: torch.Tensor, x: torch.Tensor, group: int, op: str = "sum") -> None:
    if is_grad_enabled():
        _note_change("reduce_scatter_tensor_", out)
    if status := enter(REDUCE_SCATTER, x, out, group, CODES.get(op, 0), 0, FLAT):
        comm = checked("reduce_scatter_tensor_", status, group, x, out)
        raising(collectives.reduce_scatter_single(comm, [out], [x], _operator("reduce_scatter_tensor_", op)))


def all_to_all_single_(
    out: torch.Tensor,
    x: torch.Tensor,
    group: int,
    output_split_sizes: Splits = None,
    input_split_sizes: Splits = None,
) -> None:
    if is_grad_enabled():
        _note_change("all_to_all_single_", out)
    received, sent = output_split_sizes or (), input_split_sizes or ()
    status = c.NEEDS_PYTHON
    if not received and not sent and has_equal_blocks(x, out, group):
        status = enter(ALL_TO_ALL, x, out, group, 0, 0, FLAT)
    if status:
        comm = checked("all_to_all_single_", status, group, x, out)
        raising(collectives.all_to_all_single(comm, out, x, received, sent))


def _note_change(name: str, tensor: torch.Tensor) -> None:
    """Refuse a tensor whose gradient torch records. Have a backward pass that needs the tensor as it is now raise an
    error, as after any operator that writes."""
    if tensor.requires_grad:
        shapes.check_unrecorded(name, tensor)
    if not tensor.is_inference():
        increment_version(tensor)


# --- with a result ----------------------------------------------------------------------------------------------------


def all_reduce(x: torch.Tensor, group: int, op: str = "sum") -> torch.Tensor:
    out = torch.empty_like(x)
    if enter(ALL_REDUCE, x, out, group, CODES.get(op, 0)):
        group_of(group, "all_reduce")
        out = x.clone(memory_format=torch.contiguous_format)
        all_reduce_(out, group, op)
    return out


def broadcast(x: torch.Tensor, group: int, root: int = 0) -> torch.Tensor:
    out = x.clone(memory_format=torch.contiguous_format)
    broadcast_(out, group, root)
    return out


def all_gather_into_tensor(x: torch.Tensor, group: int) -> torch.Tensor:
    out = shapes.all_gather_into_tensor(x, group)
    all_gather_into_tensor_(out, x.contiguous(), group)
    return out


def reduce_scatter_tensor(x: torch.Tensor, group: int, op: str = "sum") -> torch.Tensor:
    out = shapes.reduce_scatter_tensor(x, group, op)
    reduce_scatter_tensor_(out, x.contiguous(), group, op)
    return out


def all_to_all_single(
    x: torch.Tensor, group: int, output_split_sizes: Splits = None, input_split_sizes: Splits = None
) -> torch.Tensor:
    out = shapes.all_to_all_single(x, group, output_split_sizes, input_split_sizes)
    all_to_all_single_(out, x.contiguous(), group, output_split_sizes, input_split_sizes)
    return out


# --- making calls -----------------------------------------------------------------------------------------------------


def enter(
    operation: int, x: torch.Tensor, out: torch.Tensor, group: int, reduction: int, argument: int = 0, *flat: int
) -> int:
    """Make a call natively. Returns 0, or the status of a call that has not been made or has failed."""
    entry = entries.get(group)
    if entry is None:
        return c.NEEDS_PYTHON
    try:
        return entry(operation, reduction, argument, x, out, *flat)
    except BaseException:
        _left(group, operation)
        raise


def _left(group: int, operation: int) -> None:
    """End a group, because an exception of a signal handler has left a call."""
    name = OPERATION_NAMES[operation]
    group_of(group, name).comm._dispatcher.left(name)


def checked(name: str, status: int, group: int, x: torch.Tensor, out: torch.Tensor) -> Communicator:
    """Return the communicator on which Python makes a call that the native entry has not made. Raises the error of a
    call that has failed, or is wrong."""
    comm = group_of(group, name).comm
    with comm._dispatcher.checking(name) as check:
        _check_tensor("x", x, check)
        _check_tensor("out" if out is not x else "x", out, check, written=True)
        if x.dtype != out.dtype:
            raise TypeError(f"{_where(check)}: out must be {x.dtype} as x is, got {out.dtype}")
    if status not in (c.NEEDS_PYTHON, c.BUSY):
        raise as_torch(comm._dispatcher.failures.error(name, status))
    return comm


def _check_tensor(called: str, tensor: torch.Tensor, check: tuple[str, int], written: bool = False) -> None:
    if tensor.device.type != "cpu":
        raise TypeError(f"{_where(check)}: {called} must be on the CPU, got {tensor.device}; pass {called}.cpu()")
    if tensor.layout is not torch.strided:
        raise TypeError(f"{_where(check)}: {called} must be dense, got {tensor.layout}; pass {called}.to_dense()")
    if written and not tensor.is_contiguous():
        raise ValueError(
            f"{_where(check)}: {called} is written and must be contiguous, got strides {tensor.stride()} for shape "
            f"{list(tensor.shape)}; pass {called}.contiguous(), and copy the result back"
        )


def _operator(name: str, op: str) -> Any:
    if op not in OPERATORS:
        raise ValueError(f"torch.ops.shmcoll.{name}: op must be one of {', '.join(OPERATORS)}, got {op!r}")
    return OPERATORS[op]


def has_equal_blocks(x: torch.Tensor, out: torch.Tensor, group: int) -> bool:
    """Return whether x and out have a block of rows for each rank, as an all_to_all_single without splits needs."""
    return x.ndim > 0 and x.shape == out.shape and x.shape[0] % group_of(group, "all_to_all_single_").comm.size == 0


def _where(check: tuple[str, int]) -> str:
    operation, rank = check
    return f"torch.ops.shmcoll.{operation} on rank {rank}"


__all__ = ["OPERATORS", "checked", "enter", "has_equal_blocks"]
