"""torch's reductions, by their names in shmcoll.

AVG divides the sum; of integers towards zero, which gloo refuses. PREMUL_SUM multiplies by its factor first.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from shmcoll.engine.compiler.user_operators import premul_sum

_KINDS = dist.ReduceOp.RedOpType
#: by the number of the kind: to hash a kind takes four times as long
_NAMES = {
    _KINDS.SUM.value: "sum",
    _KINDS.AVG.value: "avg",
    _KINDS.PRODUCT.value: "prod",
    _KINDS.MIN.value: "min",
    _KINDS.MAX.value: "max",
    _KINDS.BAND.value: "band",
    _KINDS.BOR.value: "bor",
    _KINDS.BXOR.value: "bxor",
}


def operator_of(op: Any) -> Any:
    """Return the operator of shmcoll for a `ReduceOp`. Raises `TypeError` for one without a counterpart."""
    kind = op.op
    name = _NAMES.get(kind.value)
    if name is not None:
        return name
    if kind != _KINDS.PREMUL_SUM:
        raise TypeError(
            f"{kind} is not a reduction of shmcoll; use SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR or PREMUL_SUM"
        )
    factor = op.factor
    if isinstance(factor, torch.Tensor):
        if factor.numel() != 1:
            raise ValueError(f"PREMUL_SUM: the factor must be one number, got a tensor of shape {list(factor.shape)}")
        factor = factor.item()
    return premul_sum(factor)


def reduce_with(
    call: Callable[[Any], Any], operator: Any, array: np.ndarray, out: np.ndarray | None, ranks: int
) -> None:
    """Make a reduction. An average of integers is their sum, divided towards zero, as NCCL has it; shmcoll has none.

    Args:
        call: makes it with an operator.
        operator: the one that is wanted.
        array: the input of this rank.
        out: the result; None if this rank gets none.
        ranks: how many ranks there are.
    """
    if operator != "avg" or array.dtype.kind not in "iu":
        call(operator)
        return
    call("sum")
    if out is not None:
        quotient, rest = np.divmod(out, ranks)
        out[...] = quotient + ((out < 0) & (rest != 0))


__all__ = ["operator_of", "reduce_with"]
