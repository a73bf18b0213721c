"""Data parallelism of MindSpore itself in PyNative mode: what its graph compiler does otherwise.

`DistributedGradReducer` compiles its `construct`, also in PyNative mode, and no compiler takes our operators.
`reduce_gradients` takes its place.

With `parameter_broadcast=True`, the compiler begins a graph with the parameters of rank 0.
`broadcast_parameters_at_first` does so at the first call of a cell that is not inside of one that was called before.
"""

import sys
import weakref
from collections.abc import Sequence
from functools import cache, wraps
from typing import Any

from shmcoll.mindspore.communication.groups import world
from shmcoll.mindspore.memory import memory_of


def reduce_gradients(self: Any, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Add up, as float32, the gradients that belong to all ranks, as `DistributedGradReducer.construct`."""
    mindspore = sys.modules["mindspore"]
    rows_class = mindspore.common.sparse_tensor.RowTensorInner
    operators = self.op_list if self.split_fusion else (self.allreduce,) * len(grads)

    def reduced(operator: Any, shared: bool, grad: Any) -> Any:
        if not shared:
            return grad
        if isinstance(grad, rows_class):  # a sparse one: the rows of all ranks
            rows = reduced(self.allgather, shared, grad.values)
            return rows_class(self.allgather(grad.indices), rows, grad.dense_shape)
        total = operator(grad.astype(mindspore.float32))
        return (total * self.degree if self.mean else total).astype(grad.dtype)

    return tuple(map(reduced, operators, self.allreduce_filter, grads))


@cache
def broadcast_parameters_at_first() -> None:
    """Broadcast parameters from rank 0 at the first call of cells, while the setting `parameter_broadcast` is on."""
    mindspore = sys.modules["mindspore"]
    Cell = mindspore.nn.Cell
    theirs = Cell.__call__
    have_begun: weakref.WeakSet[Any] = weakref.WeakSet()

    @wraps(theirs)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self not in have_begun and mindspore.get_auto_parallel_context("parameter_broadcast"):
            have_begun.update(cell for _, cell in self.cells_and_names())
            for parameter in (self.parameters_broadcast_dict() or {}).values():
                world().broadcast(memory_of(parameter))
        return theirs(self, *args, **kwargs)

    Cell.__call__ = __call__
