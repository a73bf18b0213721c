"""all_to_all_v: its arguments and its call."""

from functools import partial
from typing import TYPE_CHECKING, Any

from shmcoll.calls import arguments as given
from shmcoll.calls.common_dtype import agreeing, move
from shmcoll.calls.counts import CountTable, apart_from, exchange

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


@agreeing
def all_to_all_v(
    dispatcher: "Dispatcher",
    x: Any,
    send_counts: Any,
    send_displs: Any,
    recv_counts: Any,
    recv_displs: Any,
    recv_room: Any,
    out: Any,
    axis: Any = None,
) -> Any:
    with dispatcher.checking("all_to_all_v") as check:
        array = given.as_moved(x, *check)
        table = CountTable(dispatcher.size, check, axis)
        table.send(array, send_counts, send_displs)
        table.expect(recv_counts, recv_displs, recv_room)
        if out is not None:
            table.target(out, array.dtype)
            array = apart_from(array, out)
    run = partial(exchange, dispatcher, "all_to_all_v", table, array, out)
    result = move(dispatcher, "all_to_all_v", array.dtype, out, run)
    return result, table.received
