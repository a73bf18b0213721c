"""reduce_scatter_v: its arguments and its call. The routine is that of reduce_scatter."""

from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.operators import as_operand, as_operator
from shmcoll.engine.native.entry_counts import mark_of

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def reduce_scatter_v(dispatcher: "Dispatcher", x: Any, counts: Any, op: Any, out: Any) -> Any:
    rank = dispatcher.rank
    with dispatcher.checking("reduce_scatter_v") as check:
        array = as_operand(x, *check)
        lengths = given.as_counts(counts, dispatcher.size, "counts", *check)
        given.check_packed(lengths, array, "counts", *check)
        operator = as_operator(dispatcher, op, array.dtype, check)
        shape: tuple[int, ...] = (int(lengths[rank]),)
        if out is not None:
            shape = _shape_of(out, shape, *check)
            given.as_output(out, shape, operator.dtype, *check)
            if given.overlap(array, out):
                array = array.copy()
    target = operator.place_for(out, shape)
    source = operator.operand(array).reshape(-1)
    starts = source.ctypes.data + (np.cumsum(lengths) - lengths) * source.itemsize
    table = np.concatenate([starts, lengths])
    mark = mark_of(lengths.ctypes.data, dispatcher.size)
    operator.run(
        dispatcher, "reduce_scatter_v", source, target, mark, sources=table.ctypes.data, routine="reduce_scatter"
    )
    return operator.deliver(target, out)


def _shape_of(out: Any, shape: tuple[int, ...], operation: str, rank: int) -> tuple[int, ...]:
    """The shape of `out`, any of so many elements."""
    if isinstance(out, np.ndarray) and out.size != shape[0]:
        raise ValueError(f"{operation} on rank {rank}: out has {out.size} elements, the result has {shape[0]}")
    return out.shape if isinstance(out, np.ndarray) else shape
