"""Synchronous sends: how a sender learns that its receiver has begun to receive a message.

The message is sent like any other (`calls/send.py`). The wait is outside of any turn: the sender looks at two words of
the ring (`engine/messages/ring_buffers.py` says which, and why that suffices), naps, and looks again. So other
threads of this rank and its asynchronous work go on meanwhile, posted receives too, and two ranks may both wait for
their messages to be received before they receive.

Now and then, and at once when the group has ended, the sender makes a native call that says whether the receiver can
still begin (LOOK of `engine/messages/send.py`). Where another thread is inside, that thread learns of failures itself,
and this one does not wait for it. After the limit of the call, GIVE_UP ends the group, unless the receiver has begun.

A blocking call looks in its own thread. An interrupt there leaves the group as it is: the message has been sent. For
asynchronous calls one thread of the process looks, which runs while any of them is pending. A program does not end
before its synchronous sends have: if they keep it waiting, this thread prints where they were made. Memory is not
looked at after the group is closed: a look holds `guard` of the turns, and so does the thread that closes the group,
which looks once more before.
"""

import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.diagnostics.call_site import here, places, submitted_at
from shmcoll.engine import context as c
from shmcoll.engine.messages.ring_buffers import ARRAY, SYNCHRONOUS
from shmcoll.engine.messages.send import GIVE_UP, HAS_BEGUN, LOOK
from shmcoll.engine.system import log
from shmcoll.engine.system.green_threads import check_threads
from shmcoll.errors import CallNotAllowed
from shmcoll.runtime import helpers, waiting
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.work import Work


class Delivery:
    """A synchronous message that has been sent. Make one in the turn in which the message was sent."""

    def __init__(self, dispatcher: Dispatcher, operation: str, dest: int, tag: int):
        self._dispatcher = dispatcher
        self._operation = operation
        self._dest, self._tag = dest, tag
        self._place = dispatcher.buffers.last_sent(dest)
        self._limit = waiting.Limit(dispatcher.group.arena, dispatcher.timeout)
        self._check_at = time.monotonic() + waiting.SLICE

    def wait(self) -> None:
        """Wait until the receiver has begun to receive the message."""
        for _ in range(waiting.LOOKS):
            if self.has_begun():
                return
            time.sleep(0)
        nap = waiting.FIRST_NAP
        while not self.has_begun():
            time.sleep(nap)
            nap = min(2 * nap, waiting.NAP)

    def is_seen(self) -> bool:
        """Return whether a look at the ring shows that the receiver has begun."""
        dispatcher = self._dispatcher
        with dispatcher.worker.turns.guard:
            return not dispatcher.is_shut and dispatcher.buffers.has_begun(self._dest, *self._place)

    def has_begun(self) -> bool:
        """Return whether the receiver has begun. Raise if it will not."""
        turns, group = self._dispatcher.worker.turns, self._dispatcher.group
        with turns.guard:
            self._dispatcher.check_open(self._operation)
            if self._dispatcher.buffers.has_begun(self._dest, *self._place):
                return True
            has_ended = group.has_ended()
        if has_ended or self._limit.has_passed():
            phase = LOOK if has_ended else GIVE_UP
            return self._dispatcher.complete(self._operation, lambda: self._ask(phase)) == HAS_BEGUN
        return time.monotonic() > self._check_at and self._check()

    def _check(self) -> bool:
        """Ask whether the receiver can still begin, unless another thread is inside."""
        self._check_at = time.monotonic() + waiting.SLICE
        worker, status = self._dispatcher.worker, c.BUSY

        def ask() -> int:
            nonlocal status
            status = self._ask(LOOK)
            return status

        worker.turns.run_if_free(ask, wakes=worker.identity)
        if status == c.BUSY:
            return False
        return self._dispatcher.complete(self._operation, ask, status=status) == HAS_BEGUN

    def _ask(self, phase: int) -> int:
        """Return HAS_BEGUN, OK if the receiver may still begin, or the status that says why it never will. For a
        turn."""
        if not self._dispatcher.worker.turns.is_mine():
            return c.BUSY
        number, at = self._place
        ring = self._dispatcher.buffers.ring(self._dest, number)
        if not ring:
            return HAS_BEGUN
        where = np.array([ring, at])
        return self._dispatcher.routine("send")(where, None, phase, self._dest, self._tag, ARRAY | SYNCHRONOUS)


def check_other_rank(dispatcher: Dispatcher, operation: str, dest: int, tag: int) -> None:
    """Refuse a blocking synchronous send to this rank itself, unless a receive that fits is posted, or another thread
    may receive."""
    if dest == dispatcher.rank and not (dispatcher.posted.wants(dest, tag) or helpers.others_run()):
        with dispatcher.checking(operation) as (_, rank):
            raise ValueError(
                f"{operation}(dest={dispatcher.failures.name}, tag={tag}, synchronous=True) on rank {rank}: this rank "
                f"cannot receive its own message while it waits; post a receive that fits first (async_op=True), or "
                f"send asynchronously"
            )


# --- asynchronous calls -----------------------------------------------------------------------------------------------


def begin(dispatcher: Dispatcher, send: Callable[[], Delivery]) -> Work[None]:
    """Have the worker send, and return the handle of the call, which ends when the receiver has begun."""
    work = _SynchronousSend(dispatcher.worker, here())
    pending = work.pending = _Pending(work)
    _watch.add(pending)

    def perform() -> None:
        try:
            pending.delivery = send()
        except BaseException as error:
            work.settle(error)

    try:
        dispatcher.worker.submit(perform)._count_as_seen()
    except BaseException:
        pending.is_over = True
        raise
    return work


class _SynchronousSend(Work[None]):
    """The handle of an asynchronous call."""

    pending: "_Pending"

    def _help(self) -> None:
        """See `Work._help`. Failures are left to the thread that looks at all pending calls."""
        delivery = self.pending.delivery
        if delivery is not None and delivery.is_seen():
            self.settle(None)
        else:
            super()._help()


class _Pending:
    """An asynchronous call. `delivery`: None until its message has been sent."""

    def __init__(self, work: Work[None]):
        self.work = work
        self.delivery: Delivery | None = None
        self.is_over = False

    def look(self) -> bool:
        """Settle the call if it has ended; return whether it has."""
        if self.is_over or self.work.done():
            return True
        outcome: Any = None
        try:
            with submitted_at(self.work.site):
                if self.delivery is None or not self.delivery.has_begun():
                    return False
        except BaseException as error:
            outcome = error
        self.work.settle(outcome)
        return True


class _Watch:
    """The thread that looks at pending calls. It ends when no call is pending."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # held for a few instructions; a signal handler may send, too
        self._pending: list[_Pending] = []
        self._is_running = False

    def add(self, one: _Pending) -> None:
        with self._lock:
            if not self._is_running:
                check_threads("a synchronous send")
            self._pending.append(one)
            if self._is_running:
                return
            try:
                threading.Thread(target=self._run, name="shmcoll-deliveries").start()
            except RuntimeError as error:  # the interpreter is ending
                self._pending.remove(one)
                raise CallNotAllowed(f"a synchronous send: no thread can be started: {error}") from None
            self._is_running = True

    def has_pending(self, worker: Any) -> bool:
        """Look at the calls of a communicator, which has this worker. Return whether any of them is pending."""
        mine = [one for one in list(self._pending) if one.work._worker is worker]
        return sum(one.look() for one in mine) < len(mine)

    @helpers.counted()
    def _run(self) -> None:
        nap = waiting.FIRST_NAP
        print_at = 0.0  # when to print what keeps the program from ending; 0: the main thread has not ended
        while True:
            ended = [one for one in list(self._pending) if one.look()]
            with self._lock:
                self._pending = [one for one in self._pending if one not in ended]
                if not self._pending:
                    self._is_running = False
                    return
            if not print_at and not threading.main_thread().is_alive():
                print_at = time.monotonic() + waiting.TELL_AFTER
            if print_at and time.monotonic() >= print_at:
                print_at = math.inf
                sends = places([one.work.site for one in self._pending])
                log.warning(f"this program ends when its synchronous sends have been received: {sends}")
            nap = waiting.FIRST_NAP if ended else min(2 * nap, waiting.NAP)
            time.sleep(nap)


def has_pending(dispatcher: Any) -> bool:
    """Return whether an asynchronous synchronous send of a communicator has not ended."""
    return _watch.has_pending(dispatcher.worker)


_watch = _Watch()
os.register_at_fork(after_in_child=_watch.__init__)  # type: ignore[misc]  # the thread is not in the child
