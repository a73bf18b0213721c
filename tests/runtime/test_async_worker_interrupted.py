"""Asynchronous calls, interrupted before any instruction: by an exception, and by handlers that call themselves.

Each case is tried with a signal before each k-th instruction of the modules that make turns, on a group of its own.
Whatever comes, the call ends, the group can be used or has ended in words, no message is lost, and the group closes.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll import calls
from shmcoll.engine import context as c
from shmcoll.errors import CallNotAllowed, Cancelled, RankFailed
from shmcoll.runtime import waiting
from tests.support import sparks

PACKAGE = Path(shmcoll.__file__).parent
FILES = tuple(
    PACKAGE / name
    for name in (
        "runtime/turns.py",
        "runtime/async_worker.py",
        "runtime/posted_receive.py",
        "runtime/posted_receives.py",
        "runtime/dispatcher.py",
        "calls/probe.py",
        "calls/recv.py",
        "calls/send.py",
    )
)


class Interrupt(BaseException):
    """What Ctrl-C would raise."""


@contextlib.contextmanager
def a_held_line(group: Any) -> Iterator[threading.Event]:
    """The worker is busy with a call until the event is set."""
    enough, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        enough.wait()

    held = group._dispatcher.worker.submit(hold)
    begun.wait()
    try:
        yield enough
    finally:
        enough.set()
        held.wait()


# --- what is interrupted ----------------------------------------------------------------------------------------------
# Each is a generator: it prepares, yields the call that is interrupted, is sent whether that has raised Interrupt, and
# checks what is left. `group` has one member, which sends to itself.


def wait_for_a_message(group: Any) -> Iterator[Any]:
    out = np.zeros(3)
    work = group.recv(out, 0, 1, async_op=True)
    group.send(np.arange(3.0), 0, 1)
    yield lambda: work.wait()
    array, *rest = work.wait()
    assert array is out and out.tolist() == [0, 1, 2] and rest == [0, 1]


def wait_for_an_object(group: Any) -> Iterator[Any]:
    work = group.recv_object(0, 1, async_op=True)
    group.send_object({"a": 1}, 0, 1)
    yield lambda: work.wait()
    assert work.wait() == ({"a": 1}, 0, 1)


def wait_for_a_long_message(group: Any) -> Iterator[Any]:
    work = group.recv(None, 0, 1, async_op=True)
    group.send(np.arange(30_000), 0, 1)
    yield lambda: work.wait()
    assert work.wait()[0].tolist() == list(range(30_000))


def send_unless_closed(group: Any) -> None:
    with contextlib.suppress(CallNotAllowed):
        group.send(np.arange(3), 0, 1)


def wait_until_a_message_comes(group: Any) -> Iterator[Any]:
    work = group.recv(None, 0, 1, async_op=True)
    timer = threading.Timer(0.003, send_unless_closed, [group])
    timer.start()
    try:
        yield lambda: work.wait()
        assert work.wait()[0].tolist() == [0, 1, 2]
    finally:
        timer.join()


def withdraw(group: Any) -> Iterator[Any]:
    work = group.recv(None, 0, 1, async_op=True)
    yield lambda: work.cancel()
    group.send(np.arange(3), 0, 1)
    if work.cancel():
        assert repr(work) == "<shmcoll.Work cancelled>"
        assert group.recv(None, 0, 1)[0].tolist() == [0, 1, 2]
    else:
        assert work.wait()[0].tolist() == [0, 1, 2]


def post(group: Any) -> Iterator[Any]:
    yield lambda: group.recv(None, 0, 1, async_op=True)


def submit(group: Any) -> Iterator[Any]:
    yield lambda: group.barrier(async_op=True)


def submit_and_wait(group: Any) -> Iterator[Any]:
    yield lambda: group.all_reduce(np.ones(2), async_op=True).wait()


def queue_behind_a_call(group: Any) -> Iterator[Any]:
    out = np.zeros(2)
    with a_held_line(group) as enough:
        timer = threading.Timer(0.002, enough.set)
        timer.start()
        try:
            is_interrupted = yield lambda: group.all_reduce(np.ones(2), out=out)
            after = out.copy()
        finally:
            timer.join()
    if not is_interrupted:
        assert after.tolist() == [1, 1]
    group.close()
    assert out.tolist() == after.tolist(), "written after the exception"


def queue_behind_a_receive(group: Any) -> Iterator[Any]:
    work = group.recv(None, 0, 1, async_op=True)
    is_interrupted = yield lambda: group.all_reduce([1.0, 2.0])
    if not is_interrupted:
        group.send(np.arange(3), 0, 1)
        assert work.wait()[0].tolist() == [0, 1, 2]


def receive_behind_a_receive(group: Any) -> Iterator[Any]:
    out = np.zeros(3)
    work = group.recv(None, 0, 2, async_op=True)
    group.send(np.arange(3.0), 0, 1)
    is_interrupted = yield lambda: group.recv(out, 0, 1)
    after = out.copy()
    if not is_interrupted:
        assert after.tolist() == [0, 1, 2]
        group.send(np.arange(3), 0, 2)
        assert work.wait()[0].tolist() == [0, 1, 2]
    group.close()
    assert out.tolist() == after.tolist(), "written after the exception"


def receive_beside_a_call(group: Any) -> Iterator[Any]:
    out = np.zeros(3)
    group.send(np.arange(3.0), 0, 1)
    with a_held_line(group) as enough:
        timer = threading.Timer(0.002, enough.set)
        timer.start()
        try:
            is_interrupted = yield lambda: group.recv(out, 0, 1)
            after = out.copy()
        finally:
            timer.join()
    if not is_interrupted:
        assert after.tolist() == [0, 1, 2]
    group.close()
    assert out.tolist() == after.tolist(), "written after the exception"


def receive_after_giving_way(group: Any) -> Iterator[Any]:
    """It is posted, before the one that was posted meanwhile."""
    out = np.zeros(3)
    group.send(np.arange(3.0), 0, 1)
    work = group.recv(None, 0, 2, async_op=True)
    is_interrupted = yield lambda: calls.recv(group._dispatcher, out, 0, 1, c.GIVES_WAY)
    after = out.copy()
    if not is_interrupted:
        assert after.tolist() == [0, 1, 2]
        group.send(np.arange(3), 0, 2)
        assert work.wait()[0].tolist() == [0, 1, 2]
    group.close()
    assert out.tolist() == after.tolist(), "written after the exception"


def send_at_once(group: Any) -> Iterator[Any]:
    work = group.recv(None, 0, 1, async_op=True)
    is_interrupted = yield lambda: group.send(np.arange(3), 0, 1, async_op=True)
    if not is_interrupted:
        assert work.wait()[0].tolist() == [0, 1, 2]


def take_beside_a_receive(group: Any) -> Iterator[Any]:
    """An interrupt may lose the message that is being taken, but then the group has ended."""
    work = group.recv(None, 0, 1, async_op=True)
    group.send(np.arange(3), 0, 2)
    is_interrupted = yield lambda: group.mprobe(0, 2)
    if not is_interrupted:
        assert group.iprobe(0, 2) is None
        group.send(np.arange(4), 0, 1)
        assert work.wait()[0].tolist() == [0, 1, 2, 3]


def exchange(group: Any) -> Iterator[Any]:
    arrays = np.arange(3), np.zeros(3, int)
    is_interrupted = yield lambda: [
        work.wait() for work in group.batch([shmcoll.Recv(arrays[1], 0, 1), shmcoll.Send(arrays[0], 0, 1)])
    ]
    if not is_interrupted:
        assert arrays[1].tolist() == [0, 1, 2]


def close(group: Any) -> Iterator[Any]:
    group.recv(None, 0, 1, async_op=True)
    group.barrier(async_op=True)
    yield lambda: group.close()


CASES = {case.__name__: case for case in (
    wait_for_a_message, wait_for_an_object, wait_for_a_long_message, wait_until_a_message_comes, withdraw, post, submit,
    submit_and_wait, queue_behind_a_call, queue_behind_a_receive, receive_behind_a_receive, receive_beside_a_call,
    receive_after_giving_way,
    send_at_once, take_beside_a_receive, exchange, close,
)}  # fmt: skip


# --- what the handler does --------------------------------------------------------------------------------------------


def raise_an_exception(group: Any, kept: list[Any]) -> None:
    raise Interrupt


def call_asynchronously(group: Any, kept: list[Any]) -> None:
    with contextlib.suppress(CallNotAllowed, RankFailed):
        kept.append(group.barrier(async_op=True))


def call(group: Any, kept: list[Any]) -> None:
    with contextlib.suppress(CallNotAllowed, RankFailed):
        group.barrier()


def post_and_withdraw(group: Any, kept: list[Any]) -> None:
    with contextlib.suppress(CallNotAllowed, RankFailed):
        work = group.recv(None, 0, 77, async_op=True)
        with contextlib.suppress(CallNotAllowed, TimeoutError):
            work.wait(0.001)
        assert work.cancel()


def wait_for_a_call(group: Any, kept: list[Any]) -> None:
    with contextlib.suppress(CallNotAllowed, RankFailed):
        group.barrier(async_op=True).wait()


def make_a_group(group: Any, kept: list[Any]) -> None:
    with contextlib.suppress(CallNotAllowed, RankFailed):
        group.subgroup([0]).close()


def close_it(group: Any, kept: list[Any]) -> None:
    with contextlib.suppress(CallNotAllowed):
        group.close()


HANDLERS = {handler.__name__: handler for handler in (
    raise_an_exception, call_asynchronously, call, post_and_withdraw, wait_for_a_call, make_a_group, close_it,
)}  # fmt: skip


# --- trying -----------------------------------------------------------------------------------------------------------


def try_steps(comm: Any, case: str, handlers: list[str], first: int, stride: int) -> int:
    """The case with each handler at step `first`, `first + stride`, ...; how many steps there are."""
    waiting.TELL_AFTER = 0.05
    step = 0
    for handler in handlers:
        for step in itertools.count(first, stride):
            try:
                if not try_step(comm, CASES[case], HANDLERS[handler], step):
                    break
            except BaseException as error:
                error.add_note(f"{case}, {handler} at step {step}")
                raise
    return step


def try_step(comm: Any, case: Callable[[Any], Any], handler: Callable[..., None], step: int) -> bool:
    group = comm.split(0)
    kept: list[Any] = []
    prepared = case(group)
    attempt, is_interrupted, goes_on = next(prepared), False, True
    try:
        goes_on = sparks.run(attempt, step, FILES, lambda: handler(group, kept))
    except Interrupt:
        is_interrupted = True
    except RuntimeError:  # by the handler that closes it
        assert handler is close_it
    if handler is close_it and group._dispatcher.is_shut:
        prepared.close()
    else:
        with contextlib.suppress(StopIteration):
            prepared.send(is_interrupted)
    if group._dispatcher.worker.is_open():  # no close has begun
        use(group, may_fail=is_interrupted)
    group.close()
    for work in kept:
        with contextlib.suppress(RankFailed):
            work.wait(0)
    assert threading.active_count() == 1, threading.enumerate()
    return goes_on


def use(group: Any, *, may_fail: bool) -> None:
    """The group does all it should, or has ended in words."""
    try:
        pending = group.recv(None, 0, 99, async_op=True)
        group.send(np.arange(3), 0, 99)
        assert pending.wait()[0].tolist() == [0, 1, 2]
        assert group.all_reduce([1, 2]).tolist() == [1, 2]
        group.barrier(async_op=True).wait()
        group.barrier()
    except RankFailed as error:
        assert may_fail and "was interrupted in" in str(error), error


def withdraw_at_steps(comm: Any, first: int, stride: int) -> list[int]:
    """How often a receive was withdrawn while its thread was about to read its message, and how often not."""
    told = [0, 0]
    for step in itertools.count(first, stride):
        group = comm.split(0)
        out = np.zeros(3)
        work = group.recv(out, 0, 1, async_op=True)
        group.send(np.arange(3.0), 0, 1)
        with contextlib.suppress(Cancelled):
            goes_on = sparks.run(work.wait, step, FILES, work.cancel)
        is_withdrawn = work.cancel()
        told[is_withdrawn] += 1
        if is_withdrawn:
            assert out.tolist() == [0, 0, 0], f"step {step}: it has read a message"
            array, *_ = group.recv(None, 0, 1)
        else:
            array, *_ = work.wait()
        assert array.tolist() == [0, 1, 2], f"step {step}"
        group.close()
        if not is_withdrawn and not goes_on:
            return told
    raise AssertionError


def test_a_receive_is_withdrawn_or_reads_its_message(ranks):
    """Between any two steps of the thread that reads it."""
    read, withdrawn = ranks(1, withdraw_at_steps, 1, 3, timeout=10.0)[0]
    assert read > 20 and withdrawn > 20


def call_as_another_thread_waits(comm: Any, first: int, stride: int) -> int:
    """A handler calls between any two steps of a turn while another thread waits for this turn. How many steps."""
    for step in itertools.count(first, stride):
        group = comm.split(0)
        posted = group.recv(None, 0, 5, async_op=True)  # so that all calls take turns
        turns = group._dispatcher.worker.turns
        other = threading.Thread(target=group.send, args=(np.ones(1), 0, 6))

        def turn(group: Any = group, other: threading.Thread = other) -> None:
            other.start()
            sparks.wait_until_in_line(group)

        def handle(group: Any = group) -> None:
            with contextlib.suppress(CallNotAllowed):
                group.barrier()

        goes_on = sparks.run(lambda turns=turns, turn=turn: turns.run(turn, "test"), step, FILES, handle)
        other.join()
        posted.cancel()
        group.close()
        if not goes_on:
            return step
    raise AssertionError


def test_a_handler_that_calls_while_its_thread_leaves_its_turn(ranks):
    assert ranks(1, call_as_another_thread_waits, 1, 1, timeout=10.0)[0] > 50


@pytest.mark.parametrize("case", CASES)
def test_some_steps(ranks, seed, case):
    """With two handlers beside the one that raises; each handler comes with several cases."""
    raising, *others = HANDLERS
    at, stride = list(CASES).index(case), 61
    handlers = [raising, others[at % 6], others[(at + 2) % 6]]
    assert ranks(1, try_steps, case, handlers, 1 + seed % stride, stride, timeout=10.0)[0] > stride


@pytest.mark.stress
@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("case", CASES)
def test_every_step(ranks, case, handler):
    steps = ranks(1, try_steps, case, [handler], 1, 1, timeout=10.0, deadline=1800.0)[0]
    print(f"{case}, {handler}: {steps} steps")
