"""From a routine's status to the exception that the user sees, and what the other ranks are told.

A rank that finds a mismatch, a lost peer or a passed limit writes its record and ends the group (see
`engine/records.py`); a rank that finds the group ended reads the earliest record. The cause is kept: every later call
on the group raises it again.
"""

import os
import time
from itertools import pairwise
from types import TracebackType

import numpy as np

from shmcoll.dtypes import BY_CODE, REDUCTION_NAMES
from shmcoll.engine import context as c
from shmcoll.engine import layout, records
from shmcoll.engine.arena import Arena
from shmcoll.engine.layout import WORD
from shmcoll.errors import CollectiveMismatch, CollectiveTimeout, InternalError, RankFailed, ShmcollError

LAUNCHER_PATIENCE = 0.05  # seconds: how long a survivor waits for the launcher to say how a peer ended

_ERRORS: dict[int, type[ShmcollError]] = {
    records.MISMATCHED: CollectiveMismatch,
    records.TIMED_OUT: CollectiveTimeout,
    records.BROKEN: InternalError,
}


class Verdicts:
    """What statuses mean for one rank of one group, whose region starts at offset `group` of the arena."""

    def __init__(self, arena: Arena, group: int, words: np.ndarray, rank: int):
        self._arena = arena
        self._group = group
        self._words = words
        self._rank = rank
        self._ended: ShmcollError | None = None

    def checking(self, operation: str) -> "Checking":
        return Checking(self, operation)

    def refused(self, operation: str, error: Exception) -> None:
        """Note a call of this rank that was refused, so that peers who then miss it learn of it."""
        told = records.read(self._arena, self._rank, layout.BY_RANK)
        if (told.state, told.pid) != (records.JOINED, os.getpid()):
            return  # the group has ended, and this record may say why; or a child of this rank is calling
        records.write(
            self._arena,
            self._rank,
            layout.BY_RANK,
            records.JOINED,
            code=self._sequence() + 1,
            text=f"rank {self._rank}'s call of {operation} was refused: {type(error).__name__}: {error}",
            pid=os.getpid(),
        )

    def interrupted(self, operation: str) -> None:
        """A signal handler raised inside a collective: this rank has left the protocol, so the group ends."""
        self._end(records.INTERRUPTED, f"rank {self._rank} was interrupted in {operation} #{self._sequence()}")

    def error(self, operation: str, status: int) -> Exception:
        """The exception for a status other than OK, after telling the others where that is due."""
        if status == c.VERDICT:
            return ValueError(self._explain_counts())
        if self._ended is None:
            self._ended = self._judge(operation, status)
        return type(self._ended)(str(self._ended))

    def _judge(self, operation: str, status: int) -> ShmcollError:
        call = f"{operation} #{self._sequence()} on rank {self._rank}"
        culprit = self._words[c.CULPRIT // WORD]
        if status == c.ABORTED:
            return self._first_cause(call)
        if status == c.PEER_LOST:
            return self._lost(call, int(culprit))
        if status == c.MISMATCH:
            text = f"the ranks disagree in operation #{self._sequence()}: {self._who_called_what()}"
            self._end(records.MISMATCHED, f"{text}. All ranks must make the same calls in the same order.")
            return self._first_cause(call)
        if status == c.TIMEOUT_PASSED:
            text = f"{call}: waited {self._words[c.TIMEOUT // WORD] / 1e9:g} s in vain; {self._who_is_missing()}"
            self._end(records.TIMED_OUT, text)
            return CollectiveTimeout(f"{text}. Raise comm.timeout or SHMCOLL_TIMEOUT if they are only slow.")
        text = f"{call}: status {status}, header of rank {culprit} changed under a reader; please report this"
        self._end(records.BROKEN, text)
        return InternalError(text)

    def _end(self, cause: int, text: str) -> None:
        records.write(self._arena, self._rank, layout.BY_RANK, records.FAILED, cause, 1, text)
        records.abort(self._arena, self._group)

    def _first_cause(self, call: str) -> ShmcollError:
        failure = records.first_failure(self._arena, range(self._arena.ranks))
        if failure is None:
            return RankFailed(f"{call}: the group was ended without a reason")
        kind = _ERRORS.get(failure.cause, RankFailed)
        return kind(failure.text if kind is CollectiveMismatch else f"{call}: {failure.text}")

    def _lost(self, call: str, culprit: int) -> ShmcollError:
        """The peer's process has ended. The launcher knows how; give it a moment to say so."""
        how = "its process has ended"
        end = time.monotonic() + LAUNCHER_PATIENCE
        while time.monotonic() < end:
            told = [records.read(self._arena, culprit, by) for by in (layout.BY_LAUNCHER, layout.BY_RANK)]
            # A survivor that knew before may have left already, because of the one that we look for
            ended = self._arena.load(self._group + layout.ABORT)
            if ended or any(t.state == records.FAILED for t in told):
                return self._first_cause(call)
            if any(t.state == records.DEPARTED for t in told):
                how = "it ended normally"
            if told[0].state == records.DEPARTED:
                break
            time.sleep(0.001)
        text = f"rank {culprit} left the job without taking part: {how}"
        self._end(records.VANISHED, text)
        return RankFailed(f"{call}: {text}")

    # --- what the headers say -----------------------------------------------------------------------------------------

    def _sequence(self) -> int:
        return int(self._words[c.SEQUENCE // WORD])

    def _mailbox(self, rank: int) -> int:
        return self._group + layout.MAILBOXES + rank * layout.mailbox_bytes(self._arena.ranks)

    def _call(self, rank: int, sequence: int) -> str:
        """What a rank called, as its header for that operation says."""
        header = self._mailbox(rank) + (sequence & 1) * layout.HEADER_BYTES
        word = self._arena.load(header + layout.HEADER_CALL)
        code, dtype, reduction, ndim = word & 0xFF, word >> 8 & 0xFF, word >> 16 & 0xFF, word >> 24 & 0xFF
        operation = layout.OPERATION_NAMES[code] if code < len(layout.OPERATION_NAMES) else f"operation {code}"
        if operation == "barrier":
            return "barrier()"
        dims = [self._arena.load(header + layout.HEADER_DIMS + i * WORD) for i in range(min(ndim, 8))]
        first, second = (self._arena.load(header + layout.HEADER_ARGUMENTS + i * WORD) for i in (0, 1))
        shape = ", ".join(map(str, dims)) + (", ..." if ndim > 8 else "")
        details = {
            "all_reduce": f", {REDUCTION_NAMES.get(reduction, reduction)}",
            "all_to_all": f", split_axis={first}, concat_axis={second}",
            "gather": f", root={first}",
        }
        return f"{operation}({BY_CODE[dtype].name if dtype in BY_CODE else dtype}[{shape}]{details.get(operation, '')})"

    def _who_called_what(self) -> str:
        calls: dict[str, list[int]] = {}
        for rank in range(self._arena.ranks):
            calls.setdefault(self._call(rank, self._sequence()), []).append(rank)
        told = "; ".join(f"{_ranks(ranks)} called {call}" for call, ranks in calls.items())
        return told + self._refusals(range(self._arena.ranks))

    def _who_is_missing(self) -> str:
        """Peers that have not published this operation, and what each last did; else who is late within it."""
        sequence = self._sequence()
        missing = []
        for rank in range(self._arena.ranks):
            box = self._mailbox(rank)
            seen = max(self._arena.load(box + half * layout.HEADER_BYTES) for half in (0, 1))
            if seen < sequence:
                last = f"last called {self._call(rank, seen)} as #{seen}" if seen else "has called nothing yet"
                missing.append(f"rank {rank} did not arrive ({last})")
        if not missing:
            return f"{self._who_stopped()} arrived but did not go on"
        return "; ".join(missing) + self._refusals(range(self._arena.ranks))

    def _who_stopped(self) -> str:
        """Who has done the fewest steps of this operation: the others wait for it, or for one another because of it.

        Of those that have done equally few, the one that this rank waits for.
        """
        begun = self._sequence() << layout.STEP_BITS
        steps = {
            rank: max(self._arena.load(self._mailbox(rank) + layout.PROGRESS) - begun, 0)
            for rank in range(self._arena.ranks)
            if rank != self._rank
        }
        awaited, fewest = int(self._words[c.CULPRIT // WORD]), min(steps.values())
        slowest = [rank for rank, done in steps.items() if done == fewest]
        return _ranks([awaited] if awaited in slowest else slowest)

    def _refusals(self, ranks: range) -> str:
        """Calls refused just before this operation: the likely reason of a mismatch."""
        told = [records.read(self._arena, rank, layout.BY_RANK) for rank in ranks]
        recent = [t.text for t in told if t.state == records.JOINED and t.text and t.code >= self._sequence() - 1]
        return "".join(f". Before that, {text}" for text in recent)

    def _explain_counts(self) -> str:
        """Which entry of an all_to_all_v does not fit: the same words on every rank."""
        n, sequence = self._arena.ranks, self._sequence()
        half = (sequence & 1) * layout.table_bytes(n)
        tables = []
        for rank in range(n):
            raw = self._arena.read(self._mailbox(rank) + layout.TABLES + half, layout.TABLE_ROWS * max(n, 2) * WORD)
            tables.append(np.frombuffer(raw, np.int64))
        place = f"all_to_all_v #{sequence}"
        for rank, table in enumerate(tables):
            counts, displs = table[:n], table[n : 2 * n]
            source, target = table[layout.TABLE_SIZES * n : layout.TABLE_SIZES * n + 2]
            for i in map(int, np.flatnonzero(counts > 0)):
                if displs[i] + counts[i] > source:
                    return (
                        f"{place}: rank {rank} sends {counts[i]} elements from displacement {displs[i]} to rank {i}, "
                        f"but its source has {source}"
                    )
            expected, places, room = (table[row * n : (row + 1) * n] for row in (2, 3, 4))
            arriving = np.array([t[rank] for t in tables])
            if (places < 0).all():
                places = np.cumsum(arriving) - arriving
            for i, count in enumerate(arriving.tolist()):
                if 0 <= expected[i] != count:
                    return f"{place}: rank {rank} expects {expected[i]} elements from rank {i}, which sends {count}"
                if 0 <= room[i] < count:
                    return f"{place}: rank {i} sends {count} elements to rank {rank}, which has room for {room[i]}"
                if count and 0 <= target < places[i] + count:
                    return (
                        f"{place}: {count} elements from rank {i} at displacement {places[i]} of rank {rank} "
                        f"do not fit its result of {target}"
                    )
            taken = sorted((places[i], places[i] + arriving[i], i) for i in np.flatnonzero(arriving > 0))
            for (_, end, a), (begin, _, b) in pairwise(taken):
                if begin < end:
                    return f"{place}: what rank {rank} receives from ranks {a} and {b} overlaps at displacement {begin}"
        return f"{place}: the counts do not fit"


class Checking:
    """`with verdicts.checking(op) as check`: a refused argument is noted for the peers and raised."""

    def __init__(self, verdicts: Verdicts, operation: str):
        self._verdicts = verdicts
        self._operation = operation

    def __enter__(self) -> tuple[str, int]:
        return self._operation, self._verdicts._rank

    def __exit__(self, _type: object, error: BaseException | None, _traceback: TracebackType | None) -> None:
        if isinstance(error, (TypeError, ValueError, IndexError)):
            self._verdicts.refused(self._operation, error)


def _ranks(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
