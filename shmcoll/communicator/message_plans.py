"""Plans of messages: a send, a receive or both, whose arguments are checked once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls.arrays import is_in_place
from shmcoll.calls.recv import check_arguments as check_recv
from shmcoll.calls.send import check_arguments as check_send
from shmcoll.calls.sendrecv import check_arguments as check_both
from shmcoll.communicator.plans import Plan, copied
from shmcoll.engine.layout import ANY
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from shmcoll.communicator.two_way_messages import TwoWayMessages

MESSAGES = ("send", "recv", "sendrecv")


class MessagePlan(Plan):
    """A planned message. Other ranks need no plan: they may call `send` and `recv`."""

    def __init__(self, comm: TwoWayMessages, operation: str, call: Callable[..., Any], arguments: dict[str, Any]):
        self._dispatcher, self._operation = comm._dispatcher, operation
        self._now, self._later = partial(call, **arguments), partial(call, **arguments, async_op=True)

    def __call__(self) -> Any:
        """Send or receive, and return what the method returns."""
        return self._now()

    def start(self) -> Work[Any]:
        """Send or receive asynchronously: see the method's `async_op`."""
        work: Work[Any] = self._later()
        return work


def make(comm: TwoWayMessages, operation: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> MessagePlan:
    """Return the plan of a method for messages. Its errors are those of `Communicator.plan`."""
    dispatcher, method = comm._dispatcher, getattr(comm, operation)
    where = f"plan of {operation} on rank {dispatcher.failures.name}"
    try:
        bound = inspect.signature(method).bind(*args, **keywords)
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from None
    bound.apply_defaults()
    values = dict(bound.arguments)
    if values.pop("async_op"):
        raise ValueError(f"{where}: async_op belongs to the call; use plan.start()")
    for name in ("x", "out"):
        if name in values:
            _check_in_place(where, name, values[name])
    if operation == "sendrecv":
        check_both(dispatcher, **values)
    elif operation == "send":
        dest = values["dest"]
        check_send(dispatcher, values["x"], dispatcher.rank if dest is None else dest, values["tag"])
    else:
        source = values["source"]
        check_recv(dispatcher, values["out"], ANY if source is None else source, values["tag"])
    return MessagePlan(comm, operation, method, values)


def _check_in_place(where: str, name: str, array: Any) -> None:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{where}: {name} must be a numpy array, to be used where it is; got a {type(array).__name__}")
    if not is_in_place(array):
        raise copied(where, name, array)
