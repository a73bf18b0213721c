"""scatter_v: its arguments and its call."""

from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.counts import CountTable, apart_from, exchange
from shmcoll.engine.layout import RECV_COUNTS, RESULT_SIZE, TABLE_SIZES

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def scatter_v(
    dispatcher: "Dispatcher", x: Any, root: int, send_counts: Any, send_displs: Any, out: Any, axis: Any = None
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
            table.rows[RECV_COUNTS, root] = table.words[TABLE_SIZES * dispatcher.size + RESULT_SIZE]
            array = None if array is None else apart_from(array, out)
    return exchange(dispatcher, "scatter_v", table, array, out, root)
