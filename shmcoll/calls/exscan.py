"""exscan: its arguments and its call."""

from typing import TYPE_CHECKING, Any

from shmcoll.calls.scan import running

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Caller


def exscan(caller: "Caller", x: Any, op: Any, out: Any, algorithm: str | None) -> Any:
    return running(caller, "exscan", caller.rank > 0, x, op, out, algorithm)
