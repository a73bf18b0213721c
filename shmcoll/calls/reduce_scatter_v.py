"""reduce_scatter_v: its arguments and its call. The routine is that of reduce_scatter."""

from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import product
from shmcoll.calls.in_place import clear_of
from shmcoll.calls.operators import as_operand, as_operator
from shmcoll.engine.native.entry_counts import mark_of

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def reduce_scatter_v(dispatcher: "Dispatcher", x: Any, counts: Any, op: Any, out: Any, axis: Any = None) -> Any:
    rank = dispatcher.rank
    with dispatcher.checking("reduce_scatter_v") as check:
        array = as_operand(x, *check)
        lengths = given.as_counts(counts, dispatcher.size, "counts", *check)
        row = given.as_row_shape(axis, array, "x", *check)
        given.check_packed(lengths, array, row is not None, "counts", *check)
        operator = as_operator(dispatcher, op, array.dtype, check)
        shape: tuple[int, ...] = (int(lengths[rank]), *(row or ()))
        if out is not None:
            shape = _shape_of(out, shape, *check) if row is None else shape
            given.as_output(out, shape, operator.dtype, *check)
            array = clear_of(array, out)
        lengths *= product(row or ())
    target = operator.place_for(out, shape)
    source = operator.operand(array).reshape(-1)
    starts = source.ctypes.data + (np.cumsum(lengths) - lengths) * source.itemsize
    table = np.concatenate([starts, lengths])
    shared = np.array([*lengths, *(() if row is None else (-1, *row))], np.int64)
    mark = mark_of(shared.ctypes.data, shared.size)
    operator.run(
        dispatcher, "reduce_scatter_v", source, target, mark, sources=table.ctypes.data, routine="reduce_scatter"
    )
    return operator.deliver(target, out)


def _shape_of(out: Any, shape: tuple[int, ...], operation: str, rank: int) -> tuple[int, ...]:
    """Return the shape of `out`, which may be any with this number of elements."""
    if isinstance(out, np.ndarray) and out.size != shape[0]:
        raise ValueError(f"{operation} on rank {rank}: out has {out.size} elements, the result has {shape[0]}")
    return out.shape if isinstance(out, np.ndarray) else shape
