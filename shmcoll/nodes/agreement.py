"""What follows from the opening of a call over nodes, on one rank (`native/opening.py`).

If the ranks disagree, all of them have reached this verdict together. Then each rank puts its call into words, and all
ranks exchange these in another opening, and raise. Counts that do not fit are refused in the same way.

If nodes have run ahead (`opening/running_ahead.py`), the ranks find first in which of their last calls they differ. A
leader that has found another call, in a message or in its node, waits for the other leaders, but not long if they make
no other call, or have left: then it ends the group, and names its own call only.
"""

import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from shmcoll.collectives import OPERATION_NAMES, RECORDS
from shmcoll.diagnostics.call_site import Site, at_site, here, places
from shmcoll.diagnostics.describe_call import called_in
from shmcoll.diagnostics.describe_mismatch import array_in, explain_tables
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.collective import ROOTED
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.kernels.element_marks import MARK_SHIFT, in_words
from shmcoll.engine.layout import WORD
from shmcoll.engine.native.call_places import CallPlaces
from shmcoll.engine.protocol.count_tables import TABLE
from shmcoll.engine.protocol.sync import SEED, mix
from shmcoll.engine.system.text import beginning, to_text
from shmcoll.engine.system.tracebacks import is_of_program, is_ours
from shmcoll.errors import CollectiveMismatch
from shmcoll.nodes.algorithms.state import OpeningState
from shmcoll.nodes.mpi.progress import Wait
from shmcoll.nodes.mpi.waiting import DISAGREEING
from shmcoll.nodes.mpi.wire import table_at
from shmcoll.nodes.opening.layout import PARTLY_UNLIKE, PAST_CALLS, UNLIKE_HERE

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

LONGEST_TEXT = 2 << 10  # bytes of what a rank says

#: what is wrong if ranks that know an array know different ones; any other call raises `CollectiveMismatch`
_PARTLY_UNLIKE = {
    "scatter": "scatter: the parts do not fit the `out` of all ranks",
    "scatter_v": "scatter_v: the parts do not have the dtype of the `out` of all ranks",
}


class Agreement:
    """The openings of one group."""

    def __init__(self, dispatcher: "NodesDispatcher"):
        self._dispatcher = dispatcher
        self.state = OpeningState(dispatcher, self._watch)
        self._wait: Wait | None = None  # of a leader in a native opening
        self._places = CallPlaces(dispatcher.words)  # of calls that this rank has left, and others may not have
        self._lines: dict[int, tuple[int, Site | None]] = {}  # the same, of those that Python has made

    @property
    def sequence(self) -> int:
        """The number of the last opening."""
        return self.state.sequence

    def open_rows(self, operation: str, array: np.ndarray, arguments: tuple[int, int], row: np.ndarray) -> np.ndarray:
        """Agree on a call that is made here and not in native code. Return the rows of all ranks.

        Args:
            operation: its name.
            array: its array, whose dtype must be equal on all ranks.
            arguments: words that must be equal on all ranks, too.
            row: bytes of this rank, as many on all ranks, and few.
        """
        call = layout.pack_call(RECORDS[operation].code, BY_NUMPY[array.dtype].code, 0, 0, array.ndim)
        dims = array.shape[: layout.HEADER_MAX_DIMS]
        called, first = self.state.called, layout.HEADER_DIMS // WORD
        called[layout.HEADER_SEQUENCE // WORD], called[layout.HEADER_CALL // WORD] = self.sequence + 1, call
        called[layout.HEADER_ARGUMENTS // WORD :][:2] = arguments
        called[first : first + len(dims)] = dims
        self.state.remember()
        fingerprint = SEED
        for word in (RECORDS[operation].code, BY_NUMPY[array.dtype].code, *arguments):
            fingerprint = mix(fingerprint, word)
        return self._rows(fingerprint, row)

    def _rows(self, fingerprint: int, row: np.ndarray) -> np.ndarray:
        status = self.state.open_rows(fingerprint, row)
        if status != c.OK:
            self.report(self._dispatcher.operation, status)
        return self.state.rows(row.size)

    def swap(self, source: np.ndarray, target: np.ndarray, counts: np.ndarray, displs: np.ndarray) -> None:
        """Exchange a block with every rank, of as many bytes and from the same place in both arrays, in a call that has
        been agreed on."""
        status = self.state.swap(source, target, counts, displs)
        if status != c.OK:
            self.report(self._dispatcher.operation, status)

    def report(self, operation: str, status: int) -> None:
        """Raise what a native call has found that returned another status than OK."""
        d, (where, code) = self._dispatcher, self.state.failed
        if status == c.MISMATCH and self.state.verdict == UNLIKE_HERE:
            self._refuse_here(operation)
        if status == c.MISMATCH:
            self._disagree(operation)
        if status == c.REFUSED:
            self._refuse_counts(operation)
        if status == c.RAISED:
            raise self.state.exception()
        if status == c.UNREADABLE and where == "MPI":
            mpi = d.channel.wire.mpi
            text = mpi.Get_error_string(code) if code else "a message of another length than this call has"
            d.progress.lost(d.failures, self.state.missing(), text)
            d.failures.raise_if_ended(d.operation)
        raise d.inner._dispatcher.failures.error(where, code)

    def note_line(self) -> None:
        """Note the line of a call that has ended. Native code does so itself where the program calls it."""
        if self.state.runs_ahead:
            self._lines[self.state.number % PAST_CALLS] = self.state.number, here()

    def keep_memory(self) -> None:
        """Keep the arrays of the calls that this thread is in, and of the exception that it handles, until the end of
        the job: MPI may still read and write them, if messages are on their way. Native code knows only addresses."""
        if not self.state.abandoned() and not self._dispatcher.far_messages.uses_arrays:
            return
        kept, frame, traceback = [], sys._getframe(1), sys.exc_info()[2]
        while frame is not None:
            kept.append(frame)
            frame = frame.f_back  # type: ignore[assignment]
        while traceback is not None:
            kept.append(traceback.tb_frame)
            traceback = traceback.tb_next
        ours = [dict(one.f_locals) for one in kept if is_ours(one.f_code.co_filename)]
        self._dispatcher.progress.abandon([], ours)

    def withdraw(self) -> None:
        """Make no native opening any more, and leave what has been posted, and is not complete, to the end of the
        job."""
        self._dispatcher.words[c.ACTIVE // WORD] = c.ENDED
        mpi, left = self._dispatcher.channel.wire.mpi, self.state.abandoned()
        if left:
            requests = [(mpi.Request.fromhandle(handle), receives) for handle, receives in left]
            self._dispatcher.progress.abandon(requests, self.state)

    def _watch(self, turn: int) -> None:
        """Look around; called by native code while this leader waits."""
        d, wait = self._dispatcher, self._wait
        if wait is None or turn <= self._turn:
            operation = d.operation or OPERATION_NAMES[d.words.item(c.OPERATION // WORD)]
            self._wait = wait = Wait(operation, d.timeout, self.state.missing, self.state.bytes_on_their_way)
        self._turn = turn
        if self.state.is_suspect:
            self._wait_for_others(wait)
        d.progress.look_around(d.failures, wait)
        self.state.sleeps(wait.sleeps)

    _turn = 0

    def _texts(self, text: str) -> list[str]:
        """Return the texts of all ranks, by rank, each shortened if necessary. Every rank calls it."""
        most = min(self.state.most_row, LONGEST_TEXT)
        row = np.frombuffer(beginning(text, most).ljust(most, b"\0"), np.uint8)
        return [to_text(row.tobytes().rstrip(b"\0")) for row in self._rows(SEED, row)]

    def _disagree(self, operation: str) -> None:
        """Raise on all ranks what each of them has called."""
        d, is_partly = self._dispatcher, self.state.verdict == PARTLY_UNLIKE
        past, last = self.state.past.copy(), self.state.number
        self.state.begin_again()
        number = last if is_partly else self._first_difference(last)
        texts = self._texts(self._call(past[number % PAST_CALLS], number, last))
        calls: dict[str, list[int]] = {}
        for rank, one in enumerate(texts):
            calls.setdefault(one, []).append(rank)
        found = "; ".join(
            f"{', '.join(d.topology.describe(rank) for rank in ranks)} called {one}" for one, ranks in calls.items()
        )
        beginning = _PARTLY_UNLIKE.get(operation) if is_partly else None
        kind = CollectiveMismatch if beginning is None else ValueError
        text = f"{beginning or 'the ranks disagree'} in operation #{number}: {found}"
        self.refuse(kind, text, dict(enumerate(texts)))

    def _first_difference(self, last: int) -> int:
        """Return the number of the first call in which ranks differ: the least that a rank has come to. Every rank
        calls it. last: the number of this rank's last call.

        All calls are compared with those of the node that sends to all others, or receives from them, in order. So of
        two ranks whose calls differ, one has found that in the first such call, and has gone no further. Until then
        all ranks make the same full openings, and these succeed.
        """
        rows = self._rows(SEED, np.array([last], np.int64).view(np.uint8))
        return int(rows.view(np.int64).min())

    def _call(self, words: np.ndarray, number: int, last: int) -> str:
        """Return what this rank called as number `number`, and where. words: its description."""
        if number == last:
            return called_in(lambda offset: self.state.called.item(offset // WORD), self._dispatcher.group) + at_site()
        made, site = self._lines.get(number % PAST_CALLS, (0, None))
        if made != number:
            site = next((place for place in self._places.of(number) if is_of_program(place[0])), None)
        called = called_in(lambda offset: words.item(offset // WORD), self._dispatcher.group)
        return f"{called} at {places([site])}" if site else called

    def _wait_for_others(self, wait: Wait) -> None:
        """End the group if this leader, which has found another call, has waited long for the other leaders."""
        d = self._dispatcher
        missing = [d.failures.world(rank) for rank in self.state.missing()]
        is_long = wait.begun and time.monotonic() - wait.begun > DISAGREEING
        if is_long or d.progress.wire.left_at.keys() & set(missing):
            called = self._call(self.state.called, self.state.number, self.state.number)
            who = d.topology.describe(d.rank)
            text = (
                f"the ranks disagree in operation #{self.state.number}: {who} called {called}, and other ranks have not"
            )
            d.failures.end(CollectiveMismatch, text)

    def _refuse_here(self, operation: str) -> None:
        """Refuse a call of this rank, which other ranks have made."""
        d, own = self._dispatcher, self.state.called
        dtype, dims = self.state.theirs
        theirs, first = own.copy(), layout.HEADER_DIMS // WORD
        theirs[layout.HEADER_CALL // WORD] = layout.pack_call(0, dtype & (1 << MARK_SHIFT) - 1, 0, 0, len(dims))
        theirs[first : first + len(dims)] = dims
        theirs[layout.HEADER_ARGUMENTS // WORD + 1] = dtype >> MARK_SHIFT
        out, part = (
            array_in(lambda offset, words=words: words.item(offset // WORD))  # type: ignore[misc]
            + in_words(words.item(layout.HEADER_ARGUMENTS // WORD + 1))
            for words in (own, theirs)
        )
        root = d.group.name(d.words.item(c.ARGUMENT // WORD))
        sent = f"rank {root} sends it {part}"
        self.refuse(ValueError, f"{operation} #{self.state.number}: out of rank {d.failures.name} is {out}, but {sent}")

    def _refuse_counts(self, operation: str) -> None:
        """Raise on all ranks which counts do not fit. `ValueError` leaves the group as it is."""
        d, tables, number = self._dispatcher, self.state.tables, self.state.number
        root = d.words.item(c.ARGUMENT // WORD) if RECORDS[operation].form & ROOTED else 0
        if tables is not None:
            self.refuse(ValueError, explain_tables(list(tables), d.group.name, operation, number, root))
        wrong = (
            "" if self.state.fits else explain_tables(list(self._tables_seen()), d.group.name, operation, number, root)
        )
        self.refuse(ValueError, next(text for text in self._texts(wrong) if text))

    def _tables_seen(self) -> np.ndarray:
        """Return tables of counts of which only this rank's is known, and what all ranks send to it."""
        d, offered = self._dispatcher, self.state.offered
        tables = np.full((d.size, layout.table_words(d.size)), -1, np.int64)
        ends = tables[:, layout.TABLE_SIZES * d.size :]
        tables[:, : d.size] = 0
        tables[:, layout.SEND_COUNTS * d.size + d.rank], ends[:, layout.ELEMENT_TYPE], _ = offered.T
        ends[:, layout.SOURCE_SIZE] = layout.LARGEST_COUNT
        tables[d.rank] = table_at(d.words.item(TABLE // WORD), layout.table_words(d.size))
        return tables

    def refuse(self, kind: type[Exception], text: str, calls: dict[int, str] | None = None) -> None:
        """Raise an error that all ranks raise now. It ends the group if it is a `CollectiveMismatch`."""
        failures = self._dispatcher.failures
        if not issubclass(kind, CollectiveMismatch):
            error = kind(text)
            error.is_common = True  # type: ignore[attr-defined]
            raise error
        failures.end(kind, text, telling=False)
        assert failures.ended is not None
        failures.ended.calls = calls
        failures.raise_if_ended(self._dispatcher.operation)
