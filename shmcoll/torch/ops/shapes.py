"""What the operators return, without moving anything: for tensors of the device "meta", and for `torch.compile`.

A result is contiguous. Sizes may be symbols of the compiler.
"""

from collections.abc import Callable, Sequence

import torch

from shmcoll.torch.ops.groups import group_of

Splits = Sequence[int] | None


def check_unrecorded(operation: str, written: torch.Tensor) -> None:
    """Refuse a tensor that an operator writes, if torch records its gradient."""
    if written.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(
            f"torch.ops.shmcoll.{operation}: a tensor that requires grad would be written; use "
            f"torch.ops.shmcoll.{operation.rstrip('_')}, which has gradients, or torch.no_grad()"
        )


def writing(operation: str) -> Callable[..., None]:
    """Return what stands for an operator that writes its first argument."""
    return lambda written, *_arguments: check_unrecorded(operation, written)


def all_reduce(x: torch.Tensor, group: int, op: str = "sum") -> torch.Tensor:
    group_of(group, "all_reduce")
    return x.new_empty(x.shape)


def broadcast(x: torch.Tensor, group: int, root: int = 0) -> torch.Tensor:
    group_of(group, "broadcast")
    return x.new_empty(x.shape)


def all_gather_into_tensor(x: torch.Tensor, group: int) -> torch.Tensor:
    size = group_of(group, "all_gather_into_tensor").comm.size
    return x.new_empty((x.shape[0] * size, *x.shape[1:]) if x.ndim else (size,))


def reduce_scatter_tensor(x: torch.Tensor, group: int, op: str = "sum") -> torch.Tensor:
    size = group_of(group, "reduce_scatter_tensor").comm.size
    _check_divisible(x, size, "reduce_scatter_tensor")
    return x.new_empty((x.shape[0] // size, *x.shape[1:]))


def all_to_all_single(
    x: torch.Tensor, group: int, output_split_sizes: Splits = None, input_split_sizes: Splits = None
) -> torch.Tensor:
    size = group_of(group, "all_to_all_single").comm.size
    if not output_split_sizes:
        _check_divisible(x, size, "all_to_all_single")
        return x.new_empty(x.shape)
    return x.new_empty((sum(output_split_sizes), *x.shape[1:]))


def _check_divisible(x: torch.Tensor, size: int, operation: str) -> None:
    if x.ndim == 0 or x.shape[0] % size:
        raise ValueError(
            f"torch.ops.shmcoll.{operation}: the first dimension of x must be a multiple of the {size} ranks, got "
            f"shape {list(x.shape)}"
        )
