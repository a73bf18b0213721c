"""torch's reductions, by their names in shmcoll.

AVG divides the sum, for floating and complex dtypes; of integers it is refused, as over gloo. PREMUL_SUM multiplies by
its factor first.
"""

from typing import Any

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


__all__ = ["operator_of"]
