"""The calls that reduce: all_reduce, reduce, scan, exscan, reduce_scatter and reduce_scatter_v."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import addresses, cut, product
from shmcoll.calls.in_place import all_clear_of, clear_of
from shmcoll.calls.operators import algorithm_for, as_operand, as_operator
from shmcoll.collectives import RECORDS
from shmcoll.collectives.reduce_scatter import EVEN, LISTED
from shmcoll.engine.collective import SCATTERS
from shmcoll.engine.kernels.dtypes import REDUCTIONS
from shmcoll.engine.native.entry_counts import mark_of
from shmcoll.runtime.dispatcher import Dispatcher


def all_reduce(dispatcher: Dispatcher, x: Any, op: Any, out: Any, algorithm: str | None) -> Any:
    return _reduce_array(dispatcher, "all_reduce", x, op, out, algorithm)


def reduce(dispatcher: Dispatcher, x: Any, root: int, op: Any, out: Any, algorithm: str | None) -> Any:
    with dispatcher.checking("reduce") as check:
        root = given.as_root(root, dispatcher.size, *check)
    return _reduce_array(dispatcher, "reduce", x, op, out, algorithm, argument=root, gets=dispatcher.rank == root)


def scan(dispatcher: Dispatcher, x: Any, op: Any, out: Any, algorithm: str | None) -> Any:
    return _reduce_array(dispatcher, "scan", x, op, out, algorithm)


def exscan(dispatcher: Dispatcher, x: Any, op: Any, out: Any, algorithm: str | None) -> Any:
    return _reduce_array(dispatcher, "exscan", x, op, out, algorithm, gets=dispatcher.rank > 0)


def reduce_scatter(dispatcher: Dispatcher, x: Any, op: Any, out: Any, algorithm: str | None) -> Any:
    reduce = _reduce_list if given.is_list_of_arrays(x) else _reduce_array
    return reduce(dispatcher, "reduce_scatter", x, op, out, algorithm)


def _reduce_array(
    dispatcher: Dispatcher,
    operation: str,
    x: Any,
    op: Any,
    out: Any,
    algorithm: str | None,
    *,
    argument: int = EVEN,
    gets: bool = True,
) -> Any:
    """Make the call for an array. argument: the root. gets: whether this rank gets a result."""
    record = RECORDS[operation]
    with dispatcher.checking(operation) as check:
        own = array = as_operand(x, *check)
        if record.form & SCATTERS:
            given.check_divisible(array, 0, dispatcher.size, *check)
            own = cut(array, dispatcher.size)[dispatcher.rank]
        operator = as_operator(dispatcher, op, array.dtype, check)
        if operation in ("scan", "exscan") and operator.reduction == REDUCTIONS["avg"]:
            raise ValueError(f"{operation} on rank {check[1]}: avg has no running form; use sum, and divide")
        number = algorithm_for(operator, algorithm, record.algorithms, check)
        if gets and out is not None:
            given.as_output(out, own.shape, operator.dtype, *check)
            array = clear_of(array, out, own, out)
    target = operator.place_for(out, own.shape) if gets else None
    operator.run(dispatcher, operation, operator.operand(array), target, argument, number)
    return None if target is None else operator.deliver(target, out)


def _reduce_list(
    dispatcher: Dispatcher, operation: str, x: Sequence[Any], op: Any, out: Any, algorithm: str | None
) -> Any:
    """Make the call for a list of n arrays, which are used in place."""
    with dispatcher.checking(operation) as check:
        arrays = given.as_list(x, dispatcher.size, *check)
        own = as_operand(arrays[dispatcher.rank], *check)
        operator = as_operator(dispatcher, op, own.dtype, check)
        number = algorithm_for(operator, algorithm, RECORDS[operation].algorithms, check)
        if out is not None:
            given.as_output(out, own.shape, operator.dtype, *check)
            arrays = all_clear_of(arrays, [out if r == dispatcher.rank else None for r in range(dispatcher.size)])
    target = operator.place_for(out, own.shape)
    sources = [operator.operand(array) for array in arrays]
    table = addresses(sources)
    operator.run(dispatcher, operation, sources[0], target, LISTED, number, table.ctypes.data)
    return operator.deliver(target, out)


def reduce_scatter_v(dispatcher: Dispatcher, x: Any, counts: Any, op: Any, out: Any, axis: Any = None) -> Any:
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
