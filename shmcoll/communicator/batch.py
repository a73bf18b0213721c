"""Many messages at once, as `comm.batch` starts them.

Most batches are short messages both ways between ranks that run side by side. So the quick way comes first: each send,
which needs no receiver; then each receive, in the order given, if its message is there or comes while this rank polls.
That takes one native call for each message. The first receive whose message does not come so soon is posted, with all
receives behind it: a message goes to the first receive that it fits.

A batch with anything else in it goes the usual way: all receives are posted, then all messages are sent. A long message
may wait for its receiver, an object is pickled by the worker, and a message may belong to a receive that was posted
before.

Interrupts: an exception between the native call of a receive and the handle that has its result ends the group, as in
`recv`. What was read would be lost otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from shmcoll import calls
from shmcoll.calls.recv import can_receive, make
from shmcoll.calls.recv import go_on as read_message
from shmcoll.calls.recv_object import make_object
from shmcoll.calls.send import can_send, send_on_at_once
from shmcoll.calls.send import check_arguments as check_send
from shmcoll.calls.send_object import check_address
from shmcoll.engine import context as c
from shmcoll.engine.layout import ANY, LARGEST_TAG
from shmcoll.engine.messages.recv import SOON
from shmcoll.engine.messages.ring_buffers import ARRAY, PART_BYTES, SOURCE_SHIFT
from shmcoll.engine.messages.send import BEGIN
from shmcoll.runtime.posted_receive import PostedReceive
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmcoll.communicator.types import ArrayLike, Out
    from shmcoll.runtime.dispatcher import Dispatcher

    Submit = Callable[..., Work[Any]]


class Send(NamedTuple):
    """Describe a message for `comm.batch`. The arguments are those of `comm.send`."""

    x: ArrayLike
    dest: int | None
    tag: int = 0


class Recv(NamedTuple):
    """Describe a receive for `comm.batch`. The arguments are those of `comm.recv`."""

    out: Out | None = None
    source: int | None = ANY
    tag: int = ANY


class SendObject(NamedTuple):
    """Describe an object for `comm.batch`. The arguments are those of `comm.send_object`."""

    value: Any
    dest: int | None
    tag: int = 0


class RecvObject(NamedTuple):
    """Describe a receive of an object for `comm.batch`. The arguments are those of `comm.recv_object`."""

    source: int | None = ANY
    tag: int = ANY


#: checked arguments of a call; or a receive that has not been posted; or the handle of what nobody sends or receives
Prepared = tuple[Any, ...] | PostedReceive | Work[Any]


def batch(dispatcher: Dispatcher, messages: Any, send: Submit, submit: Submit) -> list[Work[Any]]:
    """Start the messages. send: starts to send an array. submit: has the worker make a call."""
    if isinstance(messages, (Send, Recv, SendObject, RecvObject)) or not isinstance(messages, Iterable):
        raise TypeError(
            f"batch on rank {dispatcher.failures.name}: messages must be a sequence of shmcoll.Send and "
            f"shmcoll.Recv, got {type(messages).__name__}"
        )
    listed = list(messages)
    works: list[Any] = [None] * len(listed)
    if _are_quick(dispatcher, listed):
        prepared = listed
        if _start_quickly(dispatcher, listed, works):
            return works
    else:
        prepared = [_prepare(dispatcher, one) for one in listed]
        works = [one if type(one) is Work else None for one in prepared]
        dispatcher.routine("send")  # loaded before anything has begun
    _start(dispatcher, listed, prepared, works, send, submit)
    return works


def _are_quick(dispatcher: Dispatcher, listed: list[Any]) -> bool:
    """Return whether the routines take all the messages as they are, and no message waits for its receiver."""
    if not dispatcher.posted.is_empty() or dispatcher.checks_buffers:
        return False
    sends = False
    for one in listed:
        if type(one) is Recv:
            if not can_receive(dispatcher, *one):
                return False
        elif type(one) is not Send or not can_send(dispatcher, *one) or cast(Any, one.x).nbytes > PART_BYTES:
            return False
        else:
            sends = True
    return sends  # receives alone are posted for messages to come


def _start_quickly(dispatcher: Dispatcher, listed: list[Any], works: list[Any]) -> bool:
    """Send, and receive what comes soon. Return whether that is all; what remains has no handle in `works`."""
    send, recv = dispatcher.routine("send"), dispatcher.routine("recv")  # loaded before anything has begun
    ended = dispatcher.worker.ended
    if not dispatcher.worker.is_open():
        return False
    for i, one in enumerate(listed):
        if type(one) is Send:
            x: Any = one.x
            dest, tag = cast(int, one.dest), one.tag
            try:
                status = send(x, None, BEGIN, dest, tag, ARRAY)
                works[i] = ended(None) if status == c.OK else send_on_at_once(dispatcher, status, x, dest, tag)
            except BaseException:
                dispatcher.left("send")
                raise
            if works[i] is None:  # nothing behind it may overtake it
                return False
    for i, one in enumerate(listed):
        if type(one) is Recv:
            out: Any = one.out
            source, tag = cast(int, one.source), one.tag
            try:
                status, array = recv(None, out, SOON, source, tag, ARRAY), out
                if status == c.FOUND:
                    status, array = read_message(dispatcher, recv, out, source, tag)
                if status >= 0:
                    return False
                works[i] = ended((array, -1 - status >> SOURCE_SHIFT, -1 - status & LARGEST_TAG))
            except BaseException:
                dispatcher.left("recv")
                raise
    return True


def _prepare(dispatcher: Dispatcher, one: Any) -> Prepared:
    kind = type(one)
    if kind in (Send, SendObject) and one.dest is None:
        _prepare(dispatcher, one._replace(dest=dispatcher.rank))  # what could not be sent to anybody is refused
        return dispatcher.worker.ended(None)
    if kind in (Recv, RecvObject) and one.source is None:
        _prepare(dispatcher, one._replace(source=ANY))
        return dispatcher.worker.ended((one.out if kind is Recv else None, None, None))
    if kind is Send:
        return check_send(dispatcher, *one)
    if kind is Recv:
        return make(dispatcher, *one)
    if kind is SendObject:
        return one.value, *check_address(dispatcher, one.dest, one.tag)
    if kind is RecvObject:
        return make_object(dispatcher, *one)
    raise TypeError(
        f"batch on rank {dispatcher.failures.name}: {kind.__name__} is not a message; use shmcoll.Send(x, dest, tag), "
        f"shmcoll.Recv(out, source, tag), shmcoll.SendObject(value, dest, tag) and shmcoll.RecvObject(source, tag)"
    )


def _start(
    dispatcher: Dispatcher, listed: list[Any], prepared: list[Prepared], works: list[Any], send: Submit, submit: Submit
) -> None:
    """Post the receives, then send: all that has no handle in `works` yet."""
    receives = []
    for i, one in enumerate(listed):
        if works[i] is None and type(one) in (Recv, RecvObject):
            arguments = prepared[i]
            works[i] = make(dispatcher, *arguments) if isinstance(arguments, tuple) else arguments
            receives.append(works[i])
    if receives:
        dispatcher.posted.enter(*receives)
    try:
        for i, one in enumerate(listed):
            if works[i] is None and type(one) is Send:
                works[i] = send(*prepared[i])  # type: ignore[misc]
            elif works[i] is None:
                works[i] = submit(calls.send_object, *prepared[i])  # type: ignore[misc]
    except BaseException:  # the user has no handles
        for receive in receives:
            receive.cancel()
        raise
