"""gather_v: its arguments and its call."""

from typing import TYPE_CHECKING, Any

from shmcoll.calls import arguments as given
from shmcoll.calls.common_dtype import agreeing, move
from shmcoll.calls.counts import CountTable, apart_from, exchange, send_only
from shmcoll.engine.layout import SEND_COUNTS

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


@agreeing
def gather_v(
    dispatcher: "Dispatcher", x: Any, root: int, recv_counts: Any, recv_displs: Any, out: Any, axis: Any = None
) -> Any:
    """Make the call. Arguments about receiving count only on the root; the other ranks' are ignored, as in gather."""
    with dispatcher.checking("gather_v") as check:
        array = given.as_moved(x, *check)
        root = given.as_root(root, dispatcher.size, *check)
        table = CountTable(dispatcher.size, check, axis)
        table.rows[SEND_COUNTS, root] = table.source(array)
        if dispatcher.rank == root:
            table.expect(recv_counts, recv_displs)
            if out is not None:
                table.target(out, array.dtype)
                array = apart_from(array, out)

    def run() -> Any:
        if dispatcher.rank != root:
            send_only(dispatcher, "gather_v", table, array, root)
            return None, None
        return exchange(dispatcher, "gather_v", table, array, out, root), table.received

    return move(dispatcher, "gather_v", array.dtype, out if dispatcher.rank == root else None, run)
