"""Receives that have been posted: they wait for their messages without keeping anybody from anything else.

They live on the worker of the communicator (`work.py`). A receive whose turn has come is entered in a list and lets the
worker go on; when the worker has nothing else to do it attends to the list: it marks up to where every source has sent,
tries each receive in the order of posting, and when none has found its message sleeps until there is more than that.

A blocking receive looks at the list, too: where something is posted, or has been and waits to be entered, it is posted
behind that. Else it would take what an earlier one waits for.

Order: a message goes to the first receive in the list that it fits. It may come while we try them one by one; so
before a later one takes what it has found, the earlier ones are asked whether it fits them, and then we begin again.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from shmcoll.call_sites import submitted_at
from shmcoll.collectives.recv import ATTEND, DATA, FETCH, MARK, TRY
from shmcoll.collectives.send import AT_ONCE
from shmcoll.engine import context as c
from shmcoll.engine import layout, records
from shmcoll.engine.group import Group
from shmcoll.engine.layout import ANY, WORD
from shmcoll.engine.rings import ARRAY, WHOLE
from shmcoll.mail import Mail
from shmcoll.verdicts import Verdicts
from shmcoll.work import Pending, Work, Worker

Finish = Callable[[np.ndarray, int], Any]

_NAP = 0.001  # seconds, where there is nobody to sleep for
_FROZEN = 0.2  # seconds: who has slept for so long was stopped, which counts for no limit (see `engine/wait.py`)


class Line(Protocol):
    """What is used here of the `Caller` of the communicator."""

    group: Group
    rank: int
    size: int
    words: np.ndarray
    mail: Mail
    worker: Worker
    verdicts: Verdicts

    def routine(self, name: str) -> Callable[..., int]: ...

    def check_open(self, operation: str) -> None: ...

    def left(self, operation: str) -> None: ...


class Receive(Pending):
    """One posted receive. `operation`: what the user has called. `place`: where to read the message into, or None.
    `finish`: makes the user's result of the array that holds the message and the status of the routine."""

    def __init__(
        self, operation: str, place: np.ndarray | None, source: int, tag: int, finish: "Finish", deadline: float
    ):
        self.operation = operation
        self.place = place
        self.source = source
        self.tag = tag
        self.finish = finish
        self.deadline = deadline

    @property
    def form(self) -> int:
        return WHOLE if self.operation == "recv_object" else ARRAY

    def fits(self, source: int, tag: int) -> bool:
        return self.source in (ANY, source) and self.tag in (ANY, tag)


class Receives:
    """The posted receives of one communicator. All but `post` and `is_empty` on its worker alone."""

    def __init__(self, caller: Line):
        self._caller = caller
        self._posted: list[Receive] = []
        self._coming: list[None] = []  # one for each that waits for its turn to be entered
        self._attached: tuple[Receive, np.ndarray] | None = None  # the one that a send reads meanwhile, and where

    def is_empty(self) -> bool:
        return not self._coming and not self._posted

    def post(self, operation: str, place: np.ndarray | None, source: int, tag: int, finish: Finish) -> Work:
        """Have a receive entered in its turn."""
        caller = self._caller

        def enter() -> Receive:
            try:
                caller.check_open(operation)
                seconds = caller.words.item(c.TIMEOUT // WORD) / 1e9
                receive = Receive(operation, place, source, tag, finish, time.monotonic() + seconds)
                self._posted.append(receive)
                return receive
            finally:
                self._coming.pop()

        self._coming.append(None)
        try:
            return caller.worker.submit(enter, self.attend)
        except BaseException:
            self._coming.pop()
            raise

    def attend(self) -> bool:
        """Look once for what has come, and sleep when there is nothing. Returns whether receives are left."""
        if self._posted and not self._serve_one():
            before = time.monotonic()
            status = self._enter(None, ATTEND)
            if (spent := time.monotonic() - before) > _FROZEN:
                for receive in self._posted:
                    receive.deadline += spent
            if status in (c.PREPARE, c.VERDICT):
                self._look_for_the_late(lost=status == c.VERDICT)
                if time.monotonic() - before < _NAP:
                    time.sleep(_NAP)
            elif status != c.OK:
                self._fail(status)
        return bool(self._posted)

    def attach(self) -> np.ndarray | None:
        """See `Companion` in `calls/send.py`."""
        self.detach()
        come, receive = self._find()
        while come and receive is None and self._posted:
            come, receive = self._find()
        mail = self._caller.mail
        if receive is None or not mail.goes_into(receive.place, receive.form):
            return None
        place = mail.new_array() if receive.place is None else receive.place
        self._attached = receive, place
        mail.expect(AT_ONCE)
        return place

    def detach(self) -> None:
        """Complete the receive that is attached."""
        if self._attached:
            receive, place = self._attached
            self._attached = None
            self._complete(receive, DATA, place)

    def _serve_one(self) -> bool:
        """Whether a message has come, or the group has ended: then it is worth to look again."""
        come, receive = self._find()
        if receive:
            self._complete(receive, DATA)
        return come

    def _find(self) -> tuple[bool, Receive | None]:
        """The same, and the receive that the message is for, if that is certain."""
        status = self._enter(None, MARK)
        if status != c.OK:
            return self._fail(status), None
        for i, receive in enumerate(self._posted):
            status = self._enter(receive, TRY)
            if status == c.HALFWAY:
                if any(one.fits(*self._caller.mail.found) for one in self._posted[:i]):
                    self._enter(None, MARK)  # nobody goes on with what this has found: others may enter
                    return True, None
                return True, receive
            if status != c.PREPARE:
                return self._fail(status), None
        return False, None

    def _complete(self, receive: Receive, phase: int, begun: np.ndarray | None = None) -> None:
        """Read what has been found, or (FETCH) wait for it. `begun`: where some of it has been read to."""
        array = place = receive.place if begun is None else begun
        try:
            if phase == DATA:
                mail = self._caller.mail
                place = mail.new_array() if place is None else place
                array = place if place.size <= mail.found_count else place.reshape(-1)[: mail.found_count]
            status = self._enter(receive, phase, place)
            if status == c.HALFWAY:
                return self._complete(receive, DATA)
        except BaseException as error:
            self._caller.left(receive.operation)
            self._settle(receive, error)
            return None
        if status < 0:
            self._settle(receive, _outcome(receive, array, status))
        elif status == c.VERDICT:
            self._settle(receive, self._error(receive, status))
        elif status != c.PREPARE:
            self._fail(status, receive)
        return None

    def _look_for_the_late(self, lost: bool) -> None:
        """What can never come, or has not come in time. `lost`: somebody has died, or all others have left."""
        for receive in list(self._posted):
            if receive.deadline < time.monotonic():
                self._enter(receive, TRY)  # so that the context says which call it is
                self._fail(c.TIMEOUT_PASSED, receive)
                return
            from_others = receive.source != self._caller.rank and self._caller.size > 1
            if (lost and from_others) or self._is_in_vain(receive.source):
                self._complete(receive, FETCH)
                return

    def _is_in_vain(self, source: int) -> bool:
        """Whether a source has left. This rank itself can still send while its receive is posted."""
        if source in (ANY, self._caller.rank):
            return False
        group = self._caller.group
        has_closed = group.arena.load(group.mailbox(source) + layout.CLOSED)
        return bool(has_closed or records.how_ended(group.arena, group.ranks[source]))

    # --- calling and telling ------------------------------------------------------------------------------------------

    def _enter(self, receive: Receive | None, phase: int, place: np.ndarray | None = None) -> int:
        call = self._caller.routine("recv")
        source, tag, form = (receive.source, receive.tag, receive.form) if receive else (ANY, ANY, ARRAY)
        status = call(None, place, phase, source, tag, form)
        while status == c.BUSY and self._caller.words[c.ACTIVE // WORD] != c.ENDED:
            time.sleep(1e-4)  # a call that was let in before the worker owned the context
            status = call(None, place, phase, source, tag, form)
        return c.ABORTED if status == c.BUSY else status

    def _fail(self, status: int, first: Receive | None = None) -> bool:
        """The group has ended, by what befell the receive `first`: all raise that."""
        posted = list(self._posted)
        if first:
            posted.sort(key=lambda receive: receive is not first)
        self._caller.words[c.ACTIVE // WORD] = c.ENDED
        for receive in posted:
            self._settle(receive, self._error(receive, status))
        return True

    def _error(self, receive: Receive, status: int) -> BaseException:
        with submitted_at(receive.site):
            return self._caller.verdicts.error(receive.operation, status)

    def _settle(self, receive: Receive, outcome: Any) -> None:
        self._posted.remove(receive)
        receive.settle(outcome)


def _outcome(receive: Receive, array: np.ndarray | None, status: int) -> Any:
    """The user's result, or what went wrong in making it: the group goes on."""
    try:
        return receive.finish(array, status) if array is not None else None
    except Exception as error:
        return error
