"""all_gather_v: its arguments and its call."""

from typing import TYPE_CHECKING, Any

from shmcoll.calls import arguments as given
from shmcoll.calls.counts import Table, apart_from, exchange
from shmcoll.engine.layout import SEND_COUNTS

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Caller


def all_gather_v(caller: "Caller", x: Any, recv_counts: Any, recv_displs: Any, out: Any) -> Any:
    with caller.checking("all_gather_v") as check:
        array = given.as_array(x, *check)
        table = Table(caller.size, check)
        table.source(array)
        table.rows[SEND_COUNTS] = array.size
        table.expect(recv_counts, recv_displs)
        if out is not None:
            table.target(out, array.dtype)
            array = apart_from(array, out)
    result = exchange(caller, "all_gather_v", table, array, out)
    return result, table.received
