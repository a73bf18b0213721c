"""scatter_v: its arguments and its call."""

from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.counts import CountTable, apart_from, exchange
from shmcoll.engine.layout import RECV_COUNTS

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def scatter_v(dispatcher: "Dispatcher", x: Any, send_counts: Any, send_displs: Any, root: int, out: Any) -> Any:
    array: np.ndarray | None = None
    with dispatcher.checking("scatter_v") as check:
        root = given.as_root(root, dispatcher.size, *check)
        table = CountTable(dispatcher.size, check)
        if dispatcher.rank == root:
            array = given.as_array(x, *check)
            table.send(array, send_counts, send_displs)
        else:
            _refuse_off_root(root, x, send_counts, send_displs, *check)
        if out is not None:
            # Off the root, the ranks find out together whether it has the right dtype
            table.target(out, getattr(out, "dtype", None) if array is None else array.dtype)
            table.rows[RECV_COUNTS, root] = out.size
            array = None if array is None else apart_from(array, out)
    return exchange(dispatcher, "scatter_v", table, array, out, root)


def _refuse_off_root(root: int, x: Any, send_counts: Any, send_displs: Any, operation: str, rank: int) -> None:
    for name, value in (("x", x), ("send_counts", send_counts), ("send_displs", send_displs)):
        if value is not None:
            raise TypeError(
                f"{operation} on rank {rank}: {name} must be None off the root, which is rank {root}; "
                f"got {type(value).__name__}"
            )
