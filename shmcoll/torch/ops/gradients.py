"""The gradients of the operators that return a result.

The input of a rank is part of the results of other ranks, so its gradient is a collective of the gradients there. The
loss is understood as the sum of the losses of all ranks, as by `torch.distributed.nn.functional`. All ranks compute
their gradients, as all have made the call.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._C import _AutoDispatchBelowAutograd, _len_torch_dispatch_stack
from torch._C._functorch import peek_interpreter_stack

from shmcoll.torch.ops.groups import group_of

_OPS = torch.ops.shmcoll
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Differentiable(torch.autograd.Function):
    """An operator that torch records for the backward pass."""

    @staticmethod
    def forward(ctx: Any, formula: Callable[..., Any], operator: Any, x: torch.Tensor, *arguments: Any) -> torch.Tensor:
        ctx.formula, ctx.arguments = formula, arguments
        with _AutoDispatchBelowAutograd():
            return operator(x, *arguments)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        return None, None, ctx.formula(grad, *ctx.arguments), *[None] * len(ctx.arguments)


def differentiable(name: str, kernel: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return the kernel of an operator for tensors that may require grad.

    kernel: that for tensors in memory. It is called at once if nothing records or traces the call: torch's dispatcher
    would take as long as the operator to come to it.
    """
    operator, formula = getattr(_OPS, name).default, FORMULAS[name]

    def with_gradient(x: torch.Tensor, *arguments: Any) -> torch.Tensor:
        if x.requires_grad and torch.is_grad_enabled():
            return Differentiable.apply(formula, operator, x, *arguments)
        if type(x) in _PLAIN and x.is_cpu and not _len_torch_dispatch_stack() and peek_interpreter_stack() is None:
            return kernel(x, *arguments)
        with _AutoDispatchBelowAutograd():
            return operator(x, *arguments)

    return with_gradient


# --- formulas: the gradient of x, from that of the result ------------------------------------------------------------


def _all_reduce(grad: torch.Tensor, group: int, op: str = "sum") -> torch.Tensor:
    return _OPS.all_reduce(grad, group, _linear("all_reduce", op))


def _broadcast(grad: torch.Tensor, group: int, root: int = 0) -> torch.Tensor:
    total = _OPS.all_reduce(grad, group)
    return total if group_of(group, "broadcast").comm.rank == root else torch.zeros_like(total)


def _all_gather_into_tensor(grad: torch.Tensor, group: int) -> torch.Tensor:
    return _OPS.reduce_scatter_tensor(grad, group)


def _reduce_scatter_tensor(grad: torch.Tensor, group: int, op: str = "sum") -> torch.Tensor:
    total = _OPS.all_gather_into_tensor(grad, group)
    if _linear("reduce_scatter_tensor", op) == "avg":
        return total / group_of(group, "reduce_scatter_tensor").comm.size
    return total


def _all_to_all_single(grad: torch.Tensor, group: int, received: Any = None, sent: Any = None) -> torch.Tensor:
    return _OPS.all_to_all_single(grad, group, sent, received)


def _linear(name: str, op: str) -> str:
    if op not in ("sum", "avg"):
        raise RuntimeError(f"torch.ops.shmcoll.{name}: op={op!r} has no gradient; use sum or avg, or torch.no_grad()")
    return op


FORMULAS = {
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "all_gather_into_tensor": _all_gather_into_tensor,
    "reduce_scatter_tensor": _reduce_scatter_tensor,
    "all_to_all_single": _all_to_all_single,
}
