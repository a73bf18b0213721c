"""all_gather_v: its arguments and its call."""

from functools import partial
from typing import TYPE_CHECKING, Any

from shmcoll.calls import arguments as given
from shmcoll.calls.common_dtype import agreeing, move
from shmcoll.calls.counts import CountTable, apart_from, exchange
from shmcoll.engine.layout import SEND_COUNTS

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


@agreeing
def all_gather_v(
    dispatcher: "Dispatcher", x: Any, recv_counts: Any, recv_displs: Any, out: Any, axis: Any = None
) -> Any:
    with dispatcher.checking("all_gather_v") as check:
        array = given.as_moved(x, *check)
        table = CountTable(dispatcher.size, check, axis)
        table.rows[SEND_COUNTS] = table.source(array)
        table.expect(recv_counts, recv_displs)
        if out is not None:
            table.target(out, array.dtype)
            array = apart_from(array, out)
    run = partial(exchange, dispatcher, "all_gather_v", table, array, out)
    result = move(dispatcher, "all_gather_v", array.dtype, out, run)
    return result, table.received
