"""exscan: its arguments and its call."""

from typing import TYPE_CHECKING, Any

from shmcoll.calls.scan import running

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def exscan(dispatcher: "Dispatcher", x: Any, op: Any, out: Any, algorithm: str | None) -> Any:
    return running(dispatcher, "exscan", dispatcher.rank > 0, x, op, out, algorithm)
