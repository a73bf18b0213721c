"""Turns: the order of the calls that the threads of a rank and its worker make on one communicator.

The line exists for asynchronous work. While it is empty, the native entry lets in any thread, and no thread comes here.
The word OWNER has one of these values:

    0                nothing is pending: any thread may call
    RECEIVES_POSTED  the line is empty, but receives are posted: any thread may make any call that does not read
                     messages (`engine/native/entering.py`)
    NOBODY           the line is not empty, and no thread has the turn: the entry answers BUSY to all threads
    SHUT             the communicator is closed: likewise, forever
    thread           this thread has the turn: the entry lets in this thread only

The line is a deque of places. A place is held, which means that its lock is locked, until its owner has passed. Two
kinds of owners take a place:

    a call    asynchronous: its place is locked when it is submitted. The worker makes the call and unlocks the place
    a thread  for a blocking call, or to serve the posted receives: it locks its place by `with`, puts it into the line,
              waits until each place before it is unlocked, calls, and leaves

In the turn of an asynchronous call, the worker may make calls behind it, in their order and without turns of their own:
the end of that call waits for them (`AsyncWorker.make_up_to`). Places of threads between them are passed over. If that
end waits for a message, the worker makes sends only, and serves the posted receives: the order of collectives must not
depend on when a message arrives.

A receive may wait in native code without a place in the line: the line was empty when it began. A thread that takes a
place rings this rank's doorbell. Then the receive gives way, unless its message has arrived
(`engine/protocol/wait.py`), and is posted. So no thread waits for the message of another thread.

So a blocking call runs in its own thread. The frames that own its arrays and tables live as long as native code uses
them. An interrupt in the line is an exception before the call has begun.

Writers of OWNER. The thread that has the turn writes its identity first, NOBODY at the end of the turn, and then, under
`guard`, 0 or RECEIVES_POSTED if the line is empty except for itself. A thread that takes a place in the line replaces
either of these two by NOBODY, under `guard`, before it is in the line. A thread that posts a receive replaces 0 by
RECEIVES_POSTED, also under `guard`, before the receive can be found. `guard` is held for a few instructions and never
by a thread that waits. It is re-entrant: a signal handler may take a place, or post a receive, while its own thread
holds `guard`. Therefore a thread that has opened the entry checks the line again.

Interrupts. CPython runs signal handlers where a call returns, where a loop jumps back, and where a Python function
begins. A handler must not run within these four steps, and it cannot:

    `with lock`                   locks and enters its block, or raises and leaves the lock alone
    a place into the line         `deque.append`: one step. The place has been locked before, so it is held. After an
                                  exception `with` has unlocked it, and an unlocked place in the line has no effect
    OWNER = NOBODY after a turn   an assignment at the beginning of `finally` that calls nothing
    ACTIVE = 0 after a turn       an assignment in the same `finally`, for a turn that ends between two phases of a call

The next thread does everything else that an interrupt can leave undone: it removes unlocked places, and opens the
entry.

Why no thread waits forever. A thread waits only for places before its own, so there is no circle. A thread unlocks its
place when it leaves its call, which ends. The worker unlocks the place of a call, and every thread that waits for that
place wakes the worker. Three callers would wait for themselves, and are refused (`CallNotAllowed`). The first is a
thread that has a place in the line already: it can only be in a signal handler or a finaliser within its own call. The
second is the worker, behind calls of its own. The third is a handler whose thread holds `guard`, because the thread
that has the turn needs `guard` to leave the line.

Two threads that make collectives at the same time are refused, because their order may differ between ranks. A thread
makes all its collectives in order, and so does the worker, so the word COLLECTIVE has the one thread that waits in the
line with a blocking collective, or is between the parts of one (`alone`). It is written under `guard`, after a check
that no other thread is in a collective, and set to 0 at the beginning of `finally`. Meanwhile the entry refuses the
collectives of all other threads by itself, and so does `meets` for those that come to the line or are submitted. The
native entry writes it, too, when the first part of a call for objects has ended and others follow
(`engine/native/object_rows.py`): then no other thread is in a collective, because this one was.

The end. `drain` waits until no thread is between the parts of a collective, or in the first part of a call for objects,
after which it may be. Then it calls `shut` under `guard`: from then on no thread takes a place. Then it waits for the
places in the line.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.diagnostics import other_threads
from shmcoll.diagnostics.describe_call import MESSAGES
from shmcoll.engine import context as c
from shmcoll.engine.collective import ANY_SOURCE, PEER
from shmcoll.engine.layout import WORD
from shmcoll.engine.native.object_rows import call_code
from shmcoll.engine.native.tables import CALL_BITS
from shmcoll.errors import CallNotAllowed
from shmcoll.runtime import refused_calls

_OWNER = c.OWNER // WORD
_ACTIVE = c.ACTIVE // WORD
_KIND = c.KIND // WORD
_COLLECTIVE = c.COLLECTIVE // WORD
REFUSED = object()  # the result of `alone` for a call that has not been made
_NOT_COLLECTIVE = {*MESSAGES, "subgroup"}


class Ticket:
    """A place in the line. thread: its owner; 0 for an asynchronous call. work: that call, with its handle. sleeps: the
    thread may sleep in native code until its doorbell rings. is_message: that call sends a message. has_begun: the
    worker has taken that call."""

    __slots__ = ("has_begun", "is_message", "lock", "sleeps", "thread", "work")

    def __init__(self, thread: int, *, work: Any = None, sleeps: bool = False, is_message: bool = False):
        self.lock = threading.Lock()
        self.thread = thread
        self.work = work
        self.sleeps = sleeps
        self.is_message = is_message
        self.has_begun = False


class Turns:
    """The line of one communicator, whose context is `words`.

    name: the name of the rank, for messages. ring: rings this rank's own doorbell. wake: wakes the worker.
    has_receives: whether receives are posted, which have no place in the line.
    """

    def __init__(
        self,
        words: np.ndarray,
        name: str,
        ring: Callable[[], None],
        wake: Callable[[], None],
        has_receives: Callable[[], bool],
    ):
        self.guard = threading.RLock()
        self.is_shut = False
        self._words = words
        self._shared = memoryview(words)  # type: ignore[arg-type]  # the same words, faster
        self._name = name
        self._ring = ring
        self._wake = wake
        self._has_receives = has_receives
        self._queue: deque[Ticket] = deque()
        refused_calls.turns.add(self)

    # --- asking -------------------------------------------------------------------------------------------------------

    def is_mine(self) -> bool:
        """Return whether this thread has the turn."""
        return self._words.item(_OWNER) == threading.get_ident()

    def is_within(self) -> bool:
        """Return whether a call of this thread is in the line or inside. Then this thread runs a signal handler, a
        finaliser, or something that the worker calls."""
        me, words = threading.get_ident(), self._words
        if words.item(_OWNER) == me or abs(words.item(_ACTIVE)) == me or self.guard._is_owned():  # type: ignore[attr-defined]
            return True
        return bool(self._queue) and any(ticket.thread == me and ticket.lock.locked() for ticket in list(self._queue))

    def first_call(self, *, only_messages: bool = False) -> Ticket | None:
        """Return the first asynchronous call in the line that has not begun, if there is one; the first that sends a
        message if `only_messages`."""
        waiting = (one for one in list(self._queue) if one.work is not None and not one.has_begun)
        waiting = (one for one in waiting if one.is_message or not only_messages)
        return next((ticket for ticket in waiting if ticket.lock.locked()), None)

    def calls(self) -> list[Any]:
        """Return the `work` of each asynchronous call in the line."""
        return [work for ticket in list(self._queue) if (work := ticket.work) is not None and ticket.lock.locked()]

    def is_send(self, work: Any) -> bool:
        """Return whether this handle is that of a call in the line that sends a message."""
        return any(one.is_message and one.work and one.work[0] is work for one in list(self._queue))

    def is_free(self) -> bool:
        """Return whether the line is empty. Removes places that are not held any more."""
        queue = self._queue
        while queue:
            ticket = queue[0]
            if ticket.lock.locked():
                return False
            self._remove(ticket)
        return True

    def meets(self) -> bool:
        """Return whether another thread makes a blocking collective, and note it in MET. Call with `guard` held. See
        `is_not_alone` of `engine/native/entering.py`."""
        words = self._words
        if not (words.item(_ACTIVE) or words.item(_COLLECTIVE)):
            return False
        words = words[: c.X // WORD].copy()  # at one instant
        me, inside, collective = threading.get_ident(), abs(words.item(_ACTIVE)), words.item(_COLLECTIVE)
        if words.item(_ACTIVE) == c.ENDED:
            return False
        if not collective or collective >> CALL_BITS == me:
            collective = 0
            if inside not in (0, me, words.item(_OWNER)) and not words.item(_KIND) & PEER:
                collective = inside << CALL_BITS | call_code(words.ctypes.data)
        if collective:
            self._words[c.MET // WORD] = collective
        return bool(collective)

    def has_parts_to_make(self) -> bool:
        """Return whether another thread is between the parts of a collective, or may be when the first has ended."""
        words, me = self._words[: c.X // WORD].copy(), threading.get_ident()  # at one instant
        if words.item(_COLLECTIVE) >> CALL_BITS not in (0, me):
            return True
        is_first = words.item(c.REDUCTION // WORD) == c.ROWS and not words.item(_KIND) & PEER
        return is_first and words.item(_ACTIVE) not in (0, me, c.ENDED)

    def alone(
        self,
        operation: str,
        call: Callable[..., Any],
        arguments: tuple[Any, ...] = (),
        left: Callable[[BaseException], None] | None = None,
    ) -> Any:
        """Make a collective of several native calls, or one that waits for its turn, and return its result. If another
        thread makes a collective, no call is made, and `REFUSED` is returned. A call within such a call is part of it.
        left: called with an exception that comes out of the call, before any other thread makes a collective."""
        words, me, is_held = self._shared, threading.get_ident(), False  # by its name: gevent replaces it
        try:
            # In a fork of the rank, where the call is refused, `guard` may be locked forever
            if not (words[_COLLECTIVE] >> CALL_BITS == me or words[_OWNER] == me or self.is_shut):
                mine = me << CALL_BITS | other_threads.CODES.get(operation, 0)
                if words[_ACTIVE] == 0 and words[_COLLECTIVE] == 0:
                    words[_COLLECTIVE] = mine
                    is_held = True  # no thread and no handler runs in these three lines
                else:
                    with self.guard:
                        if self.meets():
                            return REFUSED
                        words[_COLLECTIVE] = mine
                        is_held = True  # no handler runs between these two
            return call(*arguments)
        except BaseException as error:
            if left:
                left(error)
            raise
        finally:
            if is_held:
                words[_COLLECTIVE] = 0

    # --- taking turns -------------------------------------------------------------------------------------------------

    def _is_asleep(self, thread: int) -> bool:
        """Return whether only this thread is in the line, and sleeps in its turn."""
        return all(ticket.sleeps and ticket.thread == thread for ticket in list(self._queue))

    def close_entry(self) -> None:
        """Let in only the thread that has the turn. Call with `guard` held, before what is pending can be found."""
        if self._words.item(_OWNER) in (0, c.RECEIVES_POSTED):
            self._words[_OWNER] = c.NOBODY

    def keep_messages_back(self) -> None:
        """Let no thread without a turn read messages. Call with `guard` held, before a receive can be found."""
        if self._words.item(_OWNER) == 0:
            self._words[_OWNER] = c.RECEIVES_POSTED

    def book(self, ticket: Ticket) -> None:
        """Put an asynchronous call into the line. Call with `guard` held; the caller has locked the place."""
        self.close_entry()
        self._queue.append(ticket)
        self.ring_sleepers()

    def run(self, call: Callable[[], Any], operation: str) -> Any:
        """Wait for this thread's turn, make the call, and return its result. A collective is not made, and NOT_ALONE is
        returned, if another thread makes one."""
        if self.is_within():
            raise CallNotAllowed(
                f"{operation} on {self._name}: called by a signal handler or finaliser during another call"
            )
        if operation in _NOT_COLLECTIVE:
            return self._run_behind(call, operation)
        outcome = self.alone(operation, lambda: self._run_behind(call, operation))
        return c.NOT_ALONE if outcome is REFUSED else outcome

    def _run_behind(self, call: Callable[[], Any], operation: str) -> Any:
        me = threading.get_ident()
        mine = Ticket(me)
        with mine.lock:
            with self.guard:
                self._check_open(operation)
                self.close_entry()
                self._queue.append(mine)
                self.ring_sleepers()
            for earlier in self._before(mine):
                if earlier.work is not None:
                    self._wake()
                with earlier.lock:
                    pass
            return self._run(mine, me, call)

    def run_if_free(self, call: Callable[[], Any], *, sleeps: bool = False, wakes: int = 0) -> bool:
        """Make the call if the line is empty. Returns whether it has been made.

        sleeps: the call may sleep in native code until the doorbell rings. wakes: a thread that does not count if it is
        in the line and sleeps this way in its turn. Then it is woken, and this thread waits until it has left the line.
        """
        me = threading.get_ident()
        mine = Ticket(me, sleeps=sleeps)
        with mine.lock:
            with self.guard:
                if self.is_shut or not (self.is_free() or (wakes and self._is_asleep(wakes))):
                    return False
                self.close_entry()
                self._queue.append(mine)
                self.ring_sleepers()
            if self._queue[0] is not mine:
                for earlier in self._before(mine):
                    with earlier.lock:
                        pass
            self._run(mine, me, call)
        return True

    def wait_for_threads(self) -> None:
        """Wait, on the worker, until the threads that are in the line now have left it."""
        for ticket in list(self._queue):
            if ticket.work is None:
                with ticket.lock:
                    pass

    def run_booked(self, ticket: Ticket, call: Callable[[], Any]) -> None:
        """Make, on the worker, the asynchronous call of a place, after all places before it, and unlock the place."""
        for earlier in self._before(ticket):
            with earlier.lock:
                pass
        try:
            self._run(ticket, threading.get_ident(), call)
        finally:
            ticket.lock.release()

    def _run(self, mine: Ticket, me: int, call: Callable[[], Any]) -> Any:
        words, between = self._words, -me
        try:
            words[_OWNER] = me
            return call()
        finally:
            words[_OWNER] = c.NOBODY
            if words[_ACTIVE] == between:
                words[_ACTIVE] = 0
            self._leave(mine)

    def _leave(self, mine: Ticket) -> None:
        """Open the entry if no other place is in the line. This place stays in the line as long as it is held, because
        a signal handler that runs before it is unlocked must know of it. Other threads remove it."""
        with self.guard:
            while self._words.item(_OWNER) != (owner := self._owner_without(mine)):
                self._words[_OWNER] = owner

    def _owner_without(self, mine: Ticket) -> int:
        """Return the value of OWNER when a place that has had the turn is left."""
        queue = self._queue
        if len(queue) > 1:
            self.is_free()  # removes places that are not held any more
        if self.is_shut:
            return c.SHUT
        if any(one is not mine and one.lock.locked() for one in list(queue)):
            return c.NOBODY
        return c.RECEIVES_POSTED if self._has_receives() else 0

    def _before(self, mine: Ticket) -> list[Ticket]:
        queue = list(self._queue)
        return queue[: queue.index(mine)]

    def _remove(self, ticket: Ticket) -> None:
        try:  # noqa: SIM105 - `contextlib.suppress` costs more than the rest
            self._queue.remove(ticket)
        except ValueError:  # another thread has removed it
            pass

    def ring_sleepers(self) -> None:
        """Wake a thread that sleeps in its turn, or in a receive, so that it checks the line. The region is ours as
        long as `guard` is held and the line is not shut."""
        if self.is_shut or not self._queue:
            return
        me = threading.get_ident()
        receives = self._words.item(_KIND) & ANY_SOURCE and self._words.item(_ACTIVE) not in (0, me, c.ENDED)
        if receives or any(ticket.sleeps and ticket.thread != me for ticket in list(self._queue)):
            self._ring()

    def _check_open(self, operation: str) -> None:
        if self.is_shut:
            refused_calls.check(operation)
            raise CallNotAllowed(f"{operation} on {self._name}: this communicator is closed; make a new one")

    # --- the end ------------------------------------------------------------------------------------------------------

    def shut(self) -> None:
        """Refuse all calls from now on. It takes no lock: in a fork of the rank the lock may be locked forever."""
        self.is_shut = True
        self._words[_OWNER] = c.SHUT

    def reopen(self) -> None:
        """Undo `shut`, while the line is empty."""
        with self.guard:
            self.is_shut = False
            self._words[_OWNER] = c.RECEIVES_POSTED if self._has_receives() else 0

    def drain(self) -> None:
        """Shut, and wait until the line is empty."""
        while True:
            with self.guard:
                if not self.has_parts_to_make():
                    self.shut()
                    break
            time.sleep(1e-4)
        for ticket in list(self._queue):
            with ticket.lock:
                pass
        while self._words[_ACTIVE] not in (0, c.ENDED) or self._words[c.THREAD // WORD]:
            time.sleep(1e-4)
