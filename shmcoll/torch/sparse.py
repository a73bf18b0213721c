"""all_reduce of sparse tensors: the gradients of `Embedding(sparse=True)`.

The ranks gather the indices and values of all, and each adds them up in the same order, so all ranks have the
same bits.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from shmcoll.communicator import Communicator
from shmcoll.torch.tensors import read


def all_reduce(comm: Communicator, tensor: torch.Tensor, operator: str) -> Callable[[], Any]:
    """Return the call. Each rank may have another number of elements.

    Raises:
        ValueError: the operator is not a sum. The call raises it, too, if shapes differ between ranks.
    """
    if operator != "sum":
        raise ValueError(
            f"all_reduce: sparse tensors can only be added up (ReduceOp.SUM), got {operator!r}; use to_dense()"
        )
    own = tensor.detach().coalesce()
    shape, indices, values = list(own.shape), own.indices(), own.values()

    def call() -> None:
        mine = np.array([values.shape[0], own.sparse_dim(), *shape])
        of_all = comm.all_gather(mine).reshape(comm.size, -1)
        if (of_all[:, 1:] != mine[1:]).any():
            raise ValueError(f"all_reduce: the sparse tensors have different shapes: {of_all[:, 2:].tolist()}")
        counts = of_all[:, 0].tolist()
        rows = gathered(comm, indices.t().contiguous(), counts)
        total = torch.sparse_coo_tensor(rows.t(), gathered(comm, values, counts), shape, check_invariants=False)
        with torch.no_grad():  # detach() would give a sparse tensor of its own
            tensor.copy_(total.coalesce())

    return call


def gathered(comm: Communicator, part: torch.Tensor, counts: list[int]) -> torch.Tensor:
    """Return the parts of all ranks, of which each has this number of rows."""
    whole = part.new_empty((sum(counts), *part.shape[1:]))
    width = math.prod(part.shape[1:])
    comm.all_gather_v(
        read(part).reshape(-1), recv_counts=[count * width for count in counts], out=read(whole).reshape(-1)
    )
    return whole


__all__ = ["all_reduce"]
