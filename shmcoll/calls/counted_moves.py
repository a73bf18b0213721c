"""The calls that move blocks of different lengths: all_to_all_v, all_gather_v, gather_v and scatter_v."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.common_dtype import agreeing, move
from shmcoll.calls.counts import CountTable, exchange
from shmcoll.calls.in_place import clear_of
from shmcoll.engine import layout
from shmcoll.runtime.dispatcher import Dispatcher


@agreeing
def all_to_all_v(
    dispatcher: Dispatcher,
    x: Any,
    send_counts: Any,
    send_displs: Any,
    recv_counts: Any,
    recv_displs: Any,
    recv_room: Any,
    out: Any,
    axis: Any = None,
) -> Any:
    def fill(table: CountTable, array: np.ndarray) -> None:
        table.send(array, send_counts, send_displs)
        table.expect(recv_counts, recv_displs, recv_room)

    return _collect(dispatcher, "all_to_all_v", x, fill, out, axis)


@agreeing
def all_gather_v(dispatcher: Dispatcher, x: Any, recv_counts: Any, recv_displs: Any, out: Any, axis: Any = None) -> Any:
    def fill(table: CountTable, array: np.ndarray) -> None:
        table.rows[layout.SEND_COUNTS] = table.source(array)
        table.expect(recv_counts, recv_displs)

    return _collect(dispatcher, "all_gather_v", x, fill, out, axis)


@agreeing
def gather_v(
    dispatcher: Dispatcher, x: Any, root: int, recv_counts: Any, recv_displs: Any, out: Any, axis: Any = None
) -> Any:
    """Make the call. Arguments about receiving count only on the root; the other ranks' are ignored, as in gather."""
    with dispatcher.checking("gather_v") as check:
        root = given.as_root(root, dispatcher.size, *check)

    def fill(table: CountTable, array: np.ndarray) -> None:
        table.rows[layout.SEND_COUNTS, root] = table.source(array)
        if dispatcher.rank == root:
            table.expect(recv_counts, recv_displs)

    return _collect(dispatcher, "gather_v", x, fill, out, axis, root)


def _collect(
    dispatcher: Dispatcher,
    operation: str,
    x: Any,
    fill: Callable[[CountTable, np.ndarray], None],
    out: Any,
    axis: Any,
    root: int | None = None,
) -> Any:
    """Make a call in which every rank sends. fill: notes the counts. root: the only rank that receives; None if all
    do."""
    gets = root is None or dispatcher.rank == root
    with dispatcher.checking(operation) as check:
        array = given.as_moved(x, *check)
        table = CountTable(dispatcher.size, check, axis)
        fill(table, array)
        if gets and out is not None:
            table.target(out, array.dtype)
            array = clear_of(array, out)
    run = partial(exchange, dispatcher, operation, table, array, out, root or 0, gets=gets)
    result = move(dispatcher, operation, array.dtype, out if gets else None, run)
    return (result, table.received) if gets else (None, None)


def scatter_v(
    dispatcher: Dispatcher, x: Any, root: int, send_counts: Any, send_displs: Any, out: Any, axis: Any = None
) -> Any:
    """Make the call. Arguments about sending count only on the root; the other ranks' are ignored."""
    array: np.ndarray | None = None
    with dispatcher.checking("scatter_v") as check:
        root = given.as_root(root, dispatcher.size, *check)
        given.as_row_shape(axis, np.empty(0), "x", *check)
        table = CountTable(dispatcher.size, check, axis)
        if dispatcher.rank == root:
            array = given.as_moved(x, *check)
            table.send(array, send_counts, send_displs)
        if out is not None:
            # Off the root, the ranks find out together whether it has the right dtype
            dtype = given.native(getattr(out, "dtype", np.dtype(bool))) if array is None else array.dtype
            table.target(out, dtype)
            table.rows[layout.RECV_COUNTS, root] = table.words[
                layout.TABLE_SIZES * dispatcher.size + layout.RESULT_SIZE
            ]
            array = None if array is None else clear_of(array, out)
    return exchange(dispatcher, "scatter_v", table, array, out, root)
