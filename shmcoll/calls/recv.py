"""recv: its arguments and its call."""

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.calls.array_rules import check_apart, check_unmasked
from shmcoll.calls.arrays import exact, is_in_place, place_for
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.layout import ANY, LARGEST_TAG, WORD
from shmcoll.engine.messages.recv import DATA, FETCH
from shmcoll.engine.messages.ring_buffers import ARRAY, SOURCE_SHIFT
from shmcoll.errors import CallNotAllowed
from shmcoll.runtime import helpers
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.posted_receives import PostedReceive
from shmcoll.runtime.work import Work

Received = tuple[Any, int, int]


def recv(dispatcher: Dispatcher, out: Any, source: Any, tag: Any, status: int = c.BUSY) -> Received:
    """Receive into `out`. status: the first answer of the native entry: GIVES_WAY if the receive has waited there."""
    place, source, tag = check_arguments(dispatcher, out, source, tag)
    array, status = receive(dispatcher, "recv", place, source, tag, status=status)
    return told(array, out, status)


def await_posted(dispatcher: Dispatcher, one: PostedReceive, *, is_first: bool = False) -> Any:
    """Post a receive that nobody else knows of, and return its result. is_first: before all others."""
    one.is_awaited = True
    try:
        dispatcher.posted.enter(one, is_first=is_first)
        return dispatcher.posted.wait(one)
    except CallNotAllowed:
        one.withdraw()
        raise
    except BaseException:
        if not one.done():
            leave(dispatcher, one, "recv")
        raise


def leave(dispatcher: Dispatcher, one: PostedReceive, operation: str) -> None:
    """End the group after an interrupt, and wait until nothing is written into `out` any more. A receive that is
    reading its message stops when the group has ended."""
    dispatcher.left(operation)
    one.withdraw()
    while not one.done():
        with contextlib.suppress(BaseException):  # another interrupt
            one.await_end()


def receive(
    dispatcher: Dispatcher,
    operation: str,
    place: np.ndarray | None,
    source: int,
    tag: int,
    form: int = ARRAY,
    status: int = c.BUSY,
) -> tuple[Any, int]:
    """Wait for a message and read it. Return the array with it, and the status, which contains its source and tag.
    status: the first answer of the native entry.

    A receive keeps no other thread from calling: if it cannot enter, or gives way, it is posted. A receive that has
    given way is first in the list, because it began when none was posted.
    """
    entry, array = dispatcher.routine("recv"), place

    def fetch() -> int:
        nonlocal array
        try:
            status = entry(None, as_fetched(place), FETCH, source, tag, form)
            if status == c.FOUND:
                status, array = go_on(dispatcher, entry, place, source, tag, form)
        except BaseException:  # no memory, a signal handler
            dispatcher.left(operation)
            raise
        return status

    if status == c.BUSY and dispatcher.posted.is_empty():  # else an arriving message may be for a posted receive
        status = fetch()
    if status == c.SEND_FIRST and helpers.others_run():  # one of them may send it
        status = c.BUSY
    if status not in (c.GIVES_WAY, c.BUSY) or dispatcher.words[c.ACTIVE // WORD] == c.ENDED:
        return array, dispatcher.complete(operation, fetch, status=status)
    dispatcher.check_outside(operation)
    made = dispatcher.posted.make(operation, place, source, tag, lambda *found: found)
    found: tuple[Any, int] = await_posted(dispatcher, made, is_first=status == c.GIVES_WAY)
    return found


def post(dispatcher: Dispatcher, out: Any, source: Any, tag: Any) -> Work[Any]:
    """Post a receive, and return its handle."""
    receive = make(dispatcher, out, source, tag)
    dispatcher.posted.enter(receive)
    return receive


def make(dispatcher: Dispatcher, out: Any, source: Any, tag: Any) -> PostedReceive:
    """Check the arguments of a receive, and return it ready to be posted. Loads the routine, so that the worker need
    not."""
    dispatcher.routine("recv")
    view = given.as_memory(out)
    place, source, tag = check_arguments(dispatcher, view, source, tag)
    if place is out and not dispatcher.checks_buffers:
        return dispatcher.posted.make("recv", place, source, tag, received)
    watched = None
    if place is not None and dispatcher.checks_buffers:
        watched = buffer_check.Watched("recv", dispatcher.failures.name, {"out": view}, ("out",), is_posted=True)
        place = np.empty_like(place)

    def finish(array: np.ndarray, status: int) -> Received:
        if watched:
            changed = watched.changes()
            view.flat[: array.size] = array.reshape(-1)
            array = part_of(view, array.size)
            watched.end()
            watched.refuse(changed)
        result, *rest = told(array, view, status)
        return (out if result is view else result, *rest)

    made = dispatcher.posted.make("recv", place, source, tag, finish)
    if watched:
        watched.receive = weakref.ref(made)
    return made


def check_arguments(dispatcher: Dispatcher, out: Any, source: Any, tag: Any) -> tuple[np.ndarray | None, int, int]:
    """Check the arguments. Return the array that the routine can write or None, the source and the tag."""
    if out is not None and can_receive(dispatcher, out, source, tag):
        return out, source, tag
    with dispatcher.checking("recv") as check:
        source, tag = wanted(dispatcher, source, tag, *check)
        return as_target(out, *check), source, tag


def as_target(out: Any, operation: str, rank: int) -> np.ndarray | None:
    """Return the array that the routine writes for `out`, or None. Raise `TypeError` or `ValueError` if `out` is not
    writable."""
    if out is None:
        return None
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{operation} on rank {rank}: out must be an array, got {type(out).__name__}")
    check_unmasked(out, "out", operation, rank)
    if not out.flags.writeable:
        raise ValueError(f"{operation} on rank {rank}: out is read-only")
    check_apart(out, "out", operation, rank)
    given.check_movable(out, "out", operation, rank)
    return place_for(out, out.shape, given.native(out.dtype))


def can_receive(dispatcher: Dispatcher, out: Any, source: Any, tag: Any) -> bool:
    """Return whether the routine certainly takes these arguments as they are."""
    if type(source) is not int or type(tag) is not int:
        return False
    if not (ANY <= source < dispatcher.size and ANY <= tag <= LARGEST_TAG):
        return False
    return out is None or (type(out) is np.ndarray and out.flags.writeable and given.is_plain(out))


def wanted(
    dispatcher: Dispatcher, source: Any, tag: Any, operation: str, rank: int, *, tag_name: str = "tag"
) -> tuple[int, int]:
    source = given.as_peer(source, "source", dispatcher.size, operation, rank, any_too=True)
    return source, given.as_tag(tag, tag_name, operation, rank, any_too=True)


def go_on(
    dispatcher: Dispatcher,
    entry: Callable[..., int],
    place: np.ndarray | None,
    source: int,
    tag: int,
    form: int = ARRAY,
    begun: np.ndarray | None = None,
) -> tuple[int, Any]:
    """Read the message that was found (FOUND), or the next one if its sender withdraws it.

    Return the last status, and the array with the message: a new one, or the part of `place` that it fills. On an
    exception the caller calls `left`. begun: the array into which a part of the message has been read already.
    """
    status, array = c.FOUND, place
    while status == c.FOUND:
        target = begun if begun is not None else dispatcher.buffers.new_array() if place is None else place
        begun = None
        array = part_of(target, dispatcher.buffers.found_count)
        status = entry(None, exact(target), DATA, source, tag, dispatcher.buffers.form_for(target, form))
        if status == c.WITHDRAWN:
            status, array = entry(None, as_fetched(place), FETCH, source, tag, form), place
    return status, array


def as_fetched(place: np.ndarray | None) -> np.ndarray | None:
    """Return the `out` for FETCH: None for a dtype that routines do not know, which Python compares afterwards."""
    return place if place is None or place.dtype in BY_NUMPY else None


def part_of(place: np.ndarray, count: int) -> np.ndarray:
    """Return the whole array, or its first `count` elements."""
    return place if place.size == count else place.reshape(-1)[:count]


def received(array: np.ndarray, status: int) -> Received:
    """Return (array, source, tag) for the user, from the array that was written and the status."""
    return array, -1 - status >> SOURCE_SHIFT, -1 - status & LARGEST_TAG


def told(array: Any, out: Any, status: int) -> Received:
    """Do the same, and first copy the message to `out` if routines cannot write into it."""
    if out is not None and not is_in_place(out):
        out.flat[: array.size] = array.reshape(-1)
        array = part_of(out, array.size)
    return received(array, status)
