"""Receives that have been posted: they wait for their messages without holding up other calls.

Any thread may append to the list at any time. Everything else happens in a turn (`turns.py`): of a thread that waits
for a receive (`help`), of a thread that sends a long message (`attach`), or of the worker (`is_waiting`).

Order. A message goes to the first receive in the list that it fits. It may arrive while the receives are tried one by
one. So before a receive takes the message that it has found, all earlier receives are compared with that message. If it
fits one of them, the search begins again. A blocking receive is posted behind the receives in the list, if there are
any. Otherwise it could take a message that an earlier receive waits for. One that has waited in native code, and has
given way, began when no receive was posted. So it is posted before all others.

Blocking receives. The thread that waits for one serves the list, as any other does. When the program ends, the worker
ends although such receives are left, because their threads may go on. Then these threads do what the worker did.

Interrupts. A thread that signals may interrupt reads only messages that are there as a whole (WHOLE of `recv.py`), so
that its native calls neither wait nor answer INTERRUPTED; it sleeps only in ATTEND, which reads nothing. It leaves
others to the worker. The worker leaves the list to threads as long as `served` grows, so a turn that leaves it
something is not counted. Each of its steps can be repeated in the next turn, by any thread. Before the native call
that reads a message, `_attached` holds the receive and the array that it reads into. If that call is made again, it
goes on where it was, and its answer is the same. `settle` may be repeated. Then the receive leaves the list, and at
last `_attached` is cleared. Each turn first completes the receive that is attached. Until then no other thread reads
messages: while the list is not empty, only the thread that has the turn may enter with a call that reads, and blocking
receives are posted.

Limits. A receive without a message within the timeout ends the group. If a slice of sleep in native code takes much
longer than it should, the process was stopped, and that time does not count. The time until the thread has the GIL back
is not sleep. It counts, though another thread may hold the GIL for long.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from shmcoll.diagnostics.call_site import Site, here, submitted_at
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.kernels.element_marks import exact
from shmcoll.engine.layout import ANY, WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.engine.messages.buffers import MessageBuffers
from shmcoll.engine.messages.recv import ATTEND, DATA, FETCH, MARK, POLL, TRY, WHOLE
from shmcoll.engine.messages.ring_buffers import ARRAY, PART_BYTES
from shmcoll.runtime import waiting
from shmcoll.runtime.async_worker import AsyncWorker
from shmcoll.runtime.failure_reporter import FailureReporter
from shmcoll.runtime.posted_receive import Finish, PostedReceive
from shmcoll.runtime.work import Work


class ReceivingDispatcher(Protocol):
    """The part of the communicator's `Dispatcher` that is used here."""

    group: Group
    rank: int
    size: int
    words: np.ndarray
    buffers: MessageBuffers
    worker: AsyncWorker
    failures: FailureReporter

    @property
    def timeout(self) -> float: ...

    def routine(self, name: str) -> Callable[..., int]: ...

    def check_open(self, operation: str) -> None: ...

    def left(self, operation: str) -> None: ...


class PostedReceives:
    """The posted receives of one communicator."""

    def __init__(self, dispatcher: ReceivingDispatcher):
        self._dispatcher = dispatcher
        self._posted: list[PostedReceive] = []
        self._attached: tuple[PostedReceive, np.ndarray] | None = None  # the receive that reads a message, and where
        self._is_whole = False  # whether all of that message has come
        self._looked = 0.0  # time of the last turn that served the list
        self._sampled = self._computed = 0.0  # time of the last reading of the processor time, and its value
        self.served = 0

    def is_empty(self) -> bool:
        return not self._posted

    def first(self) -> PostedReceive | None:
        """Return the first receive in the list."""
        return next(iter(self._posted), None)

    def make(self, operation: str, place: np.ndarray | None, source: int, tag: int, finish: Finish) -> PostedReceive:
        """Make a receive, to be put into the list by `enter`."""
        dispatcher = self._dispatcher
        deadline = time.monotonic() + dispatcher.timeout
        return PostedReceive(dispatcher.worker, here(), operation, place, source, tag, deadline, finish)

    def enter(self, *receives: PostedReceive, is_first: bool = False) -> None:
        """Put receives into the list, `is_first` before all others. After an exception they are withdrawn, because the
        user has no handles."""
        worker = self._dispatcher.worker
        try:
            self._dispatcher.check_open(receives[0].operation)
            with worker.turns.guard:
                if not (receives[0].is_awaited and worker.ends_with_program):
                    worker.start(receives[0].operation)
                if not self._posted:
                    self._looked = time.monotonic()
                    if self._looked - self._sampled > waiting.SAMPLE:
                        self._sampled, self._computed = self._looked, time.process_time()
                end = 0 if is_first else len(self._posted)
                self._posted[end:end] = receives
                worker.turns.keep_messages_back()
                worker.turns.ring_sleepers()
            worker.watch()
        except BaseException:
            for receive in receives:
                receive.withdraw()
            raise

    def wait(self, one: PostedReceive) -> Any:
        """Wait for a receive that only this thread knows of, and return its result."""
        worker = self._dispatcher.worker
        while not one.done():
            if not worker.ends_with_program:
                one._wait(waiting.SHIFT, sleeps=True)
            elif not worker.turns.run_if_free(lambda: self.is_waiting(is_ending=False), sleeps=True):
                self._dispatcher.check_open(one.operation)
                one._latch.wait(waiting.NAP)
        return one.wait()

    def only_threads_wait(self) -> bool:
        """See `Listener` in `async_worker.py`."""
        return all(receive.is_awaited for receive in list(self._posted))

    # --- turns --------------------------------------------------------------------------------------------------------

    def help(self, works: Sequence[Work[Any]], *, polls: bool, sleeps: bool) -> None:
        """See `Listener` in `async_worker.py`."""
        worker = self._dispatcher.worker
        goes_on = True

        def look() -> None:
            nonlocal goes_on
            goes_on = self._look(works, polls=polls, sleeps=sleeps)

        while goes_on and not _has_ended(works):
            if not worker.turns.run_if_free(look, sleeps=sleeps, wakes=worker.identity if sleeps else 0):
                return

    def _look(self, works: Sequence[Work[Any]], *, polls: bool, sleeps: bool) -> bool:
        """Complete what comes until one of the works has ended, or nothing more comes for a slice. A thread that does
        not sleep stops when it has polled for as long as it may. Called in a turn of a thread that signals may
        interrupt. Returns whether to call it again."""
        goes_on = self._serve(briefly=True, marks=False)
        while polls and goes_on and not _has_ended(works):
            goes_on = self._serve(briefly=True, marks=True)
            if not goes_on or _has_ended(works):
                break
            status = self._wait_briefly(ATTEND if sleeps else POLL)
            if status != c.OK:  # at the end the worker withdraws receives
                is_late = any(receive.deadline < self._looked for receive in list(self._posted))
                return sleeps and status == c.SLICE_OVER and not is_late and self._dispatcher.worker.is_open()
            goes_on = self._serve(briefly=True, marks=False)
        return goes_on and polls

    def _wait_briefly(self, phase: int) -> int:
        """Wait until more comes, for a slice at most, in a thread that signals may interrupt."""
        try:
            return self._attend(phase)
        except BaseException:  # an interrupt has ended this wait only: undo what ends a call
            self._dispatcher.words[c.ACTIVE // WORD] = 0
            if self._dispatcher.group.has_ended():
                self._dispatcher.words[c.ACTIVE // WORD] = c.ENDED
            raise

    def is_waiting(self, *, is_ending: bool) -> bool:
        """See `Listener` in `async_worker.py`."""
        self._serve(briefly=False, marks=True)
        if not self._posted:
            return True
        status = self._attend(ATTEND)
        if status in (c.SLICE_OVER, c.SOURCE_LOST):
            if not is_ending or any(receive.is_awaited for receive in list(self._posted)):
                self._look_for_the_late(lost=status == c.SOURCE_LOST)
        elif status != c.OK:
            self._fail(status)
        return status != c.SOURCE_LOST

    def _attend(self, phase: int) -> int:
        """Wait until more has arrived than was there at the last MARK: ATTEND or POLL."""
        status = self._enter(None, phase)
        self._note_time()
        return status

    def _note_time(self) -> None:
        """Note the time of a turn, and move the deadlines by the time before it in which the process was stopped.

        A stopped process computes nothing. So a thread that keeps the GIL from the threads that serve the list is not a
        stop. Whether a receive is late is decided by the time noted here: so a stop after that does not count, either.
        """
        now = time.monotonic()
        if now - self._sampled > waiting.SAMPLE:
            computed = time.process_time()
            gap = now - self._looked
            if gap > waiting.FROZEN and computed - self._computed < gap * waiting.IDLE:
                for receive in list(self._posted):
                    receive.deadline += gap
            self._sampled, self._computed = now, computed
        self._looked = now

    def attach(self) -> np.ndarray | None:
        """See `Companion` in `calls/send.py`."""
        self.detach()
        receive = self._match()
        mail = self._dispatcher.buffers
        if receive is None or not mail.goes_into(receive.place, receive.wanted[2]) or not receive.take():
            return None
        place = mail.new_array() if receive.place is None else receive.place
        self._is_whole = False
        self._attached = receive, place
        return exact(place)

    def detach(self) -> None:
        """Complete the receive that is attached."""
        if self._attached:
            self._complete(*self._attached)

    def withdraw(self, *, all_of_them: bool) -> list[Site | None]:
        """See `Listener` in `async_worker.py`."""
        self._serve(briefly=False, marks=False)
        sites = []
        for receive in [one for one in list(self._posted) if not one.is_awaited]:
            is_lost = not receive.has_other_ways and self.cannot_come(receive.source)
            if (all_of_them or is_lost) and receive.withdraw():
                sites.append(receive.site)
        self._clean()
        return sites

    def complete_what_has_come(self) -> None:
        """Read the messages that are there as a whole for posted receives. Called in a turn of a thread that signals
        may interrupt."""
        self._serve(briefly=True, marks=False)

    def cannot_come(self, source: int) -> bool:
        """Return whether no message of `source` can come any more while this thread waits: it has left, or is this
        rank."""
        sources = range(self._dispatcher.size) if source == ANY else [source]
        return all(one == self._dispatcher.rank or self._has_left(one) for one in sources)

    def wants(self, source: int, tag: int) -> bool:
        """Return whether a message from `source` with this tag is for a posted receive."""
        return any(receive.fits(source, tag) for receive in list(self._posted))

    # --- in a turn ----------------------------------------------------------------------------------------------------

    def _serve(self, *, briefly: bool, marks: bool) -> bool:
        """Complete all receives whose messages have arrived. Returns whether this thread may do so again, because it
        has left nothing to the worker. briefly: this is a thread that signals may interrupt. marks: note up to where
        every source has sent."""
        self._note_time()
        self._clean()
        goes_on = self._complete_each(briefly=briefly, marks=marks)
        if (
            goes_on or not self._posted
        ):  # else the worker has to serve the list: it leaves the list to threads that serve it
            self.served += 1
        return goes_on

    def _complete_each(self, *, briefly: bool, marks: bool) -> bool:
        if self._attached and briefly and not self._is_whole:
            return False
        self.detach()
        while self._posted:
            if marks and (status := self._enter(None, MARK, patiently=not briefly)) != c.OK:
                if not briefly:
                    self._fail(status)
                return False
            status, receive = self._find(patiently=not briefly)
            if receive is None:
                if status != c.NOTHING_YET and not briefly:
                    self._fail(status)
                return status == c.NOTHING_YET
            self._is_whole = self._dispatcher.buffers.found_bytes <= PART_BYTES
            if briefly and not self._is_whole:
                self._is_whole = self._enter(receive, WHOLE, patiently=False) == c.FOUND
                if not self._is_whole:
                    return False
            if receive.take():
                self._read(receive, briefly=briefly)
            self._clean()
        return False

    def _match(self) -> PostedReceive | None:
        """Return, on the worker, the receive for which a message has arrived."""
        if (status := self._enter(None, MARK)) != c.OK:
            self._fail(status)
            return None
        status, receive = self._find(patiently=True)
        if receive is None and status != c.NOTHING_YET:
            self._fail(status)
        return receive

    def _find(self, *, patiently: bool) -> tuple[int, PostedReceive | None]:
        """Find a message that has arrived, and the first receive that it fits. Returns FOUND and that receive, or else
        NOTHING_YET or an error, and None.

        Most often the next message of all is for a receive, or there is no message. Then one native call is enough,
        however many receives there are. Otherwise each receive is tried in its order, because its message may be behind
        others.
        """
        status = self._enter(None, TRY, wanted=(ANY, ANY, ARRAY), patiently=patiently)
        if status == c.NOTHING_YET:
            return status, None
        if status not in (c.FOUND, c.BUSY):  # the group has ended, and the error must quote a receive
            first, words = self._posted[0], self._dispatcher.words
            words[c.ARGUMENT // WORD], words[c.ARGUMENT_2 // WORD], _ = first.wanted
            return status, None
        if status == c.FOUND and (receive := self._first_that_fits(self._posted)):
            return status, receive
        while True:
            posted, earlier_fits = list(self._posted), False
            for i, receive in enumerate(posted):
                if receive.is_withdrawn:
                    continue
                status = self._enter(receive, TRY, patiently=patiently)
                if status == c.FOUND:
                    earlier_fits = self._first_that_fits(posted[:i]) is not None
                    if not earlier_fits:
                        return status, receive
                    break
                if status != c.NOTHING_YET:
                    return status, None
            if not earlier_fits:
                return c.NOTHING_YET, None

    def _first_that_fits(self, receives: Sequence[PostedReceive]) -> PostedReceive | None:
        """Return the first of these receives that the message found fits."""
        found = self._dispatcher.buffers.found
        return next((one for one in list(receives) if one.fits(*found)), None)

    def _read(self, receive: PostedReceive, *, briefly: bool) -> None:
        """Read the message that has been found for a receive that has been taken."""
        try:
            place = self._dispatcher.buffers.new_array() if receive.place is None else receive.place
        except BaseException as error:  # no memory
            if briefly:
                receive.free()
                raise
            self._give_up(receive, error)
            return
        self._attached = receive, place
        self._complete(receive, place)

    def _complete(self, receive: PostedReceive, place: np.ndarray) -> None:
        """Read the message that has been found, or what is left of it."""
        buffers = self._dispatcher.buffers
        array = place if place.nbytes <= buffers.found_bytes else place.reshape(-1)[: buffers.found_count]
        self._conclude(receive, self._enter(receive, DATA, place), array)
        self._attached = None

    def _conclude(self, receive: PostedReceive, status: int, array: np.ndarray | None) -> None:
        if status < 0:
            self._settle(receive, self._outcome(receive, array, status))
        elif status == c.DOES_NOT_FIT:
            self._settle(receive, self._error(receive, status))
        elif status == c.WITHDRAWN:
            receive.free()
        else:
            self._fail(status, receive)

    def _look_for_the_late(self, lost: bool) -> None:
        """End a receive that can never complete, or is late. lost: a rank has died, or all others have left."""
        posted, me = list(self._posted), self._dispatcher.rank
        if any(receive.deadline < self._looked for receive in posted):
            self._give_time_to_compile(posted)
        sources = {receive.source for receive in posted} - {ANY, me}
        gone = {source for source in sources if self._has_left(source)}  # once for each: it reads files
        for receive in posted:
            is_late, source = receive.deadline < self._looked, receive.source
            from_others = source != me and self._dispatcher.size > 1
            cannot_come = from_others and (lost or source in gone) and not receive.has_other_ways
            if not (is_late or cannot_come) or not receive.take():
                continue
            if is_late:
                self._enter(receive, TRY)  # so that the context says which call it is
                self._fail(c.TIMEOUT_PASSED, receive)
            else:
                self._fetch(receive)
            return

    def _give_time_to_compile(self, posted: list[PostedReceive]) -> None:
        """Move the deadlines while a rank compiles: see `engine/protocol/wait.py`."""
        if records.some_rank_compiles(self._dispatcher.group.arena):
            for receive in posted:
                receive.deadline = max(receive.deadline, self._looked + self._dispatcher.timeout)

    def _fetch(self, receive: PostedReceive) -> None:
        """Wait for a message that cannot arrive, in order to find the reason. Read it if it has arrived in the last
        moment."""
        try:
            status = self._enter(receive, FETCH, receive.place)
        except BaseException as error:
            self._give_up(receive, error)
            return
        if status == c.FOUND:
            self._read(receive, briefly=False)
        else:
            self._conclude(receive, status, receive.place)

    def _has_left(self, source: int) -> bool:
        """Return whether a source has left."""
        group = self._dispatcher.group
        has_closed = group.arena.load(group.mailbox(source) + layout.CLOSED)
        return bool(has_closed or records.how_ended(group.arena, group.ranks[source]))

    # --- calls and errors ---------------------------------------------------------------------------------------------

    def _enter(
        self,
        receive: PostedReceive | None,
        phase: int,
        place: np.ndarray | None = None,
        *,
        wanted: tuple[int, int, int] | None = None,
        patiently: bool = True,
    ) -> int:
        """Call the routine for a receive, or for a source, tag and form that are wanted. With neither, the context
        holds the first receive in the list, because errors quote it."""
        call = self._dispatcher.routine("recv")
        one = receive or next(iter(self._posted), None)
        source, tag, form = wanted or (one.wanted if one else (ANY, ANY, ARRAY))
        if place is not None and phase == DATA:
            place, form = exact(place), self._dispatcher.buffers.form_for(place, form)
        elif place is not None and place.dtype not in BY_NUMPY:
            place = None
        status = call(None, place, phase, source, tag, form)
        while status == c.BUSY and patiently and self._dispatcher.words[c.ACTIVE // WORD] != c.ENDED:
            time.sleep(1e-4)  # a call is inside that entered before anything was pending
            status = call(None, place, phase, source, tag, form)
        return c.ABORTED if status == c.BUSY and patiently else status

    def _give_up(self, receive: PostedReceive, error: BaseException) -> None:
        """End the group, because reading has raised an exception and part of a message may be lost."""
        self._dispatcher.left(receive.operation)
        self._settle(receive, error)

    def _fail(self, status: int, first: PostedReceive | None = None) -> None:
        """Make all receives fail, because the group has ended by a failure of the receive `first`."""
        posted = list(self._posted)
        if first:
            posted.sort(key=lambda receive: receive is not first)
        self._dispatcher.words[c.ACTIVE // WORD] = c.ENDED
        for receive in posted:
            if receive.take():
                self._settle(receive, self._error(receive, status))
        self._clean()

    def _error(self, receive: PostedReceive, status: int) -> BaseException:
        with submitted_at(receive.site):
            return self._dispatcher.failures.error(receive.operation, status)

    def _clean(self) -> None:
        """Remove receives that have been withdrawn."""
        for receive in list(self._posted):
            if receive.is_withdrawn:
                receive.withdraw()  # once more: an interrupt may have arrived between two steps
                self._posted.remove(receive)

    def _settle(self, receive: PostedReceive, outcome: Any) -> None:
        receive.settle(outcome)
        if receive in self._posted:
            self._posted.remove(receive)

    def _outcome(self, receive: PostedReceive, array: np.ndarray | None, status: int) -> Any:
        """Return the user's result, or the exception that was raised while it was made. The group stays usable."""
        try:
            return receive.finish(array, status) if array is not None else None
        except BaseException as error:
            if isinstance(error, Exception) or self._dispatcher.worker.is_me():
                return error
            raise  # an interrupt of this thread, which is not about the message


def _has_ended(works: Sequence[Work[Any]]) -> bool:
    return any(work.done() for work in works)
