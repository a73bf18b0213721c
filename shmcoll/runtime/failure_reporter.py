"""From a routine's status to the exception that the user sees, and to the records for the other ranks.

A rank that finds a mismatch, a lost peer or a passed limit writes why and ends the group (see
`engine/memory/records.py`); a rank that finds the group ended reads the earliest record. The cause is kept: every later
call on the group raises it again.
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shmcoll.collectives import OPERATION_NAMES
from shmcoll.diagnostics import keeping, other_threads, report_lock
from shmcoll.diagnostics.call_site import Site, at_site, here, is_submitted, places
from shmcoll.diagnostics.describe_call import MESSAGES, called, composite_name, message_in_words, receives
from shmcoll.diagnostics.describe_message import from_itself, misfit, missing_message, what_waits
from shmcoll.diagnostics.describe_mismatch import (
    advise,
    explain_counts,
    explain_faces,
    explain_overlap,
    explain_parts,
    is_eager,
)
from shmcoll.diagnostics.describe_timeout import RAISE_LIMIT, timed_out, was_too_late, with_advice
from shmcoll.diagnostics.flight_log import flights
from shmcoll.diagnostics.meant_call import suggest
from shmcoll.diagnostics.past_calls import first_difference, has_left, past_call
from shmcoll.diagnostics.wait_graph import awaited_by, not_arrived, who_stopped
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.compiler.user_operators import of_kernel
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.engine.messages.buffers import MessageBuffers
from shmcoll.engine.native.call_places import CallPlaces
from shmcoll.engine.system.tracebacks import is_of_program
from shmcoll.errors import (
    ArenaError,
    CollectiveMismatch,
    CollectiveTimeout,
    Deadlock,
    InternalError,
    RankFailed,
    ShmcollError,
)
from shmcoll.runtime import deadlock_report, failure_facts, leftovers, waiting

if TYPE_CHECKING:
    from shmcoll.diagnostics.job_dump import Taken

#: operations whose headers say where their arrays are when these have been refused
_EXPOSING = frozenset(
    {"all_reduce", "all_gather", "all_to_all", "broadcast", "gather", "scatter", "collective_permute"}
    | {"reduce", "reduce_scatter", "reduce_scatter_v", "scan", "exscan"}
    | {"all_gather_v", "all_to_all_v", "gather_v", "scatter_v"}
)

_LINES_LENGTH = 600  # characters of lines that a rank notes when it leaves: a record has 1,984 bytes
_COARSE = 6  # CLOCK_MONOTONIC_COARSE, of the flight recorder

_ERRORS: dict[int, type[ShmcollError]] = {
    records.MISMATCHED: CollectiveMismatch,
    records.TIMED_OUT: CollectiveTimeout,
    records.BROKEN: InternalError,
}


class FailureReporter:
    """What statuses mean for one rank of one group. Ranks in messages are those of the group: see `RankName`."""

    def __init__(self, group: Group, words: np.ndarray, rank: int, mail: MessageBuffers):
        self._arena = group.arena
        self._mail = mail
        self._group = group
        self._words = words
        self._rank = rank
        self.name = group.name(rank)  # in messages
        self.partner: FailureReporter | None = (
            None  # of a group that ends with this one: see `Communicator._for_messages`
        )
        self._ended: ShmcollError | None = None
        self._circle: Taken | None = None  # what was known when this rank found a deadlock
        self._refusal = _Refusal(0, "", "")
        self.is_told = False  # whether a call of the program has raised why the group has ended
        self._is_shut = False  # whether this rank has closed the group: then its region may be somebody else's memory
        self._lock = threading.RLock()  # held by a thread that works in the region
        self.how_to_wait_longer = RAISE_LIMIT  # in messages
        self.how_to_call_beside = "comm.dup()"  # in messages
        self._places = CallPlaces(words)  # of calls that this rank has left, and others may not have
        self._lines: dict[int, tuple[int, Site | None]] = {}  # the same, of those that Python has made
        self._limits: list[tuple[int, float]] = []  # when the limit of a wait was set, and what it was before

    @cached_property
    def where(self) -> str:
        """The name of this rank and its group, in messages."""
        group = self._group
        is_world = group == Group.world(group.arena)
        return f"rank {self.name}" if is_world else f"rank {self.name}, in the group of {group.title}"

    @property
    def size(self) -> int:
        """The number of ranks in the group."""
        return self._group.size

    @property
    def is_shut(self) -> bool:
        """Whether this rank has closed the group."""
        return self._is_shut

    def has_failed(self) -> bool:
        """Return whether an exception has ended this rank's program."""
        return records.own_state(self._arena, self._group.ranks[self._rank]) == records.FAILED

    def shut(self) -> None:
        """Neither read nor write the group's region any more."""
        with self._lock:
            self._is_shut = True

    def note_limit(self) -> None:
        """Note the limit of a wait, which is about to be set. A call that waits already keeps it."""
        now = time.clock_gettime_ns(_COARSE)
        self._limits = [*self._limits[-7:], (now, self._words.item(c.TIMEOUT // WORD) / 1e9)]

    def _limit(self, operation: str) -> float:
        """Return the limit of the wait that has timed out."""
        began = time.clock_gettime_ns(_COARSE)
        if self._limits and operation not in MESSAGES and (flown := flights(self._group, self._rank)):
            began = flown[-1].started
        later = (limit for when, limit in self._limits if when > began)
        return next(later, self._words.item(c.TIMEOUT // WORD) / 1e9)

    def note_line(self, operation: str) -> None:
        """Note the line of a collective that has ended. Native code does so itself where the program calls it."""
        sequence = self._sequence()
        if operation not in MESSAGES and self._words.item(c.CREDIT // WORD) != sequence:
            self._lines[sequence % layout.FLIGHT_ENTRIES] = sequence, here()

    def _line(self, sequence: int) -> str:
        """Return the line at which this rank has called operation `sequence`, for messages; '' if it is not known."""
        if sequence == self._sequence() and not has_left(self._group, self._rank, sequence):
            return at_site()
        number, site = self._lines.get(sequence % layout.FLIGHT_ENTRIES, (0, None))
        if number != sequence:
            site = next((place for place in self._places.of(sequence) if is_of_program(place[0])), None)
        return f" at {places([site])}" if site else ""

    def lines_not_compared(self) -> dict[str, list[int]]:
        """Return the lines of the last calls that this rank has not compared with all others', with the numbers of
        these calls. Those that do not fit into a record are left out, the oldest first."""
        last, lines = self._sequence(), dict[str, list[int]]()
        for sequence in range(last, max(self._words.item(c.CREDIT // WORD), last - layout.HEADERS), -1):
            line = self._line(sequence)
            if line not in lines and sum(map(len, lines)) + len(line) > _LINES_LENGTH:
                break
            lines.setdefault(line, []).append(sequence)
        return lines

    def checking(self, operation: str) -> "Checking":
        return Checking(self, operation)

    def refused(self, operation: str, error: Exception) -> None:
        """Note a call of this rank that was refused, so that peers that then miss it learn of it. Of several between
        two operations the first is told: from there on this rank may be out of step."""
        if not self._arena.load(layout.JOB_MAGIC):
            return  # a child of this rank is calling
        call, why = f"rank {self.name}'s call of {operation}{at_site()}", f"{type(error).__name__}: {error}"
        with self._lock:
            if self._is_shut:
                return
            place = self._sequence() + 1
            first = self._refusal
            self._refusal = first._replace(more=first.more + 1) if first.place == place else _Refusal(place, call, why)
            records.note_refusal(self._group, self._rank, place, self._refusal.words())

    def interrupted(self, operation: str) -> None:
        """End the group after a signal handler has raised inside a collective: this rank has left the protocol."""
        self._end(records.INTERRUPTED, f"rank {self.name} was interrupted in {self._call(operation)}{at_site()}")

    def error(self, operation: str, status: int) -> BaseException:
        """Return the exception for a status other than OK. Record it for the others first, if they need it."""
        refusal: BaseException
        if status == c.NOT_ALONE:
            refusal = other_threads.error(self._words, operation, self.name, self.how_to_call_beside)
            self.refused(operation, refusal)
            return refusal
        if status == c.NO_MEMORY:
            refusal = self._no_memory(operation)
            self.refused(operation, refusal)
            return refusal
        return self._reported(operation, status, self._judge)

    def _no_memory(self, operation: str) -> ArenaError:
        """Return the error of a call that was refused because there is no memory for this rank's windows."""
        length = 2 * self._words.item(c.WINDOW_BYTES // WORD)
        return self._arena.too_small(f"{operation} on {self.where}: the staging memory of this rank", length)

    def _reported(self, operation: str, status: int, judge: Callable[[str, int], ShmcollError]) -> BaseException:
        """Do that. judge: makes the exception if the group has not ended before."""
        with self._lock:
            error = self._error(operation, status, judge)
        if self._ended is not None and not is_submitted():
            self.is_told = True
        return error

    def look(self, operation: str) -> None:
        """Raise why the group has ended, in a wait outside of routines. It ends now if a member has failed."""
        with self._lock:
            if self._is_shut or self._group.has_ended():
                raise self._left(operation, c.ABORTED, self._judge)
        for rank in self._group.ranks:
            if records.how_failed(self._arena, rank):
                raise self.lost(operation, rank)

    def lost(self, operation: str, world: int) -> BaseException:
        """Return the error for a member that has ended, a rank of the world, in a wait outside of routines."""
        rank = self._group.ranks.index(world)
        return self._left(operation, c.PEER_LOST, lambda operation, _: self._lost(operation, rank))

    def late(self, operation: str, seconds: float, world: int, what: str) -> BaseException:
        """Return the error for a member, a rank of the world, that has not done something in so many seconds."""
        rank = self._group.ranks.index(world)
        text = timed_out(f"{self._call_here(operation)}{at_site()}", seconds, f"rank {self._group.name(rank)} {what}")
        return self._left(operation, c.TIMEOUT_PASSED, lambda *_: self._timeout(text, [rank]))

    def _left(self, operation: str, status: int, judge: Callable[[str, int], ShmcollError]) -> BaseException:
        error = self._reported(operation, status, judge)
        self._words[c.ACTIVE // WORD] = c.ENDED
        return error

    def _error(self, operation: str, status: int, judge: Callable[[str, int], ShmcollError]) -> BaseException:
        if self._is_shut:
            closed = f"{operation} on {self.where}: another thread has closed the group meanwhile"
            return RankFailed(closed, operation=operation)
        if operation in MESSAGES and status in (c.SEND_FIRST, c.DOES_NOT_FIT):
            call = f"{self._call(operation)} on rank {self.name}"
            if status == c.SEND_FIRST:
                return ValueError(from_itself(call))
            return misfit(call, self._group, self._words, self._mail)
        if status == c.REFUSED:
            root = int(self._words[c.ARGUMENT // WORD])
            if operation == "scatter" and is_eager(self._group, self._sequence(), root):
                return ValueError(explain_parts(self._group, self._sequence(), root, self._rank))
            if operation in _EXPOSING and (overlap := explain_overlap(self._group, operation, self._sequence())):
                return ValueError(overlap)
            if operation == "scatter":
                return ValueError(explain_parts(self._group, self._sequence(), root, self._rank))
            return ValueError(
                explain_counts(self._group, operation, self._sequence(), int(self._words[c.TURN // WORD]), root)
            )
        if self._ended is None:
            if status == c.RAISED:
                return self._raised(operation)
            error = judge(operation, status)
            error.operation = operation
            self._ended = failure_facts.again(error)
            return error
        return failure_facts.again(self._ended)

    def _judge(self, operation: str, status: int) -> ShmcollError:
        call = self._call_here(operation)
        if operation not in MESSAGES:
            self._note_site(self._sequence() if status != c.MISMATCH else self._first_difference())
        culprit = self._words[c.CULPRIT // WORD]
        if status == c.ABORTED:
            return self._first_cause(operation)
        if status == c.PEER_LOST:
            return self._lost(operation, int(culprit))
        if status == c.DEADLOCKED:
            self._end_deadlock()
            return self._first_cause(operation)
        if status == c.MISMATCH:
            faces = operation == "halo_exchange" and explain_faces(self._group, self._words)
            return self._disagreement(operation, faces or "")
        if status == c.TIMEOUT_PASSED:
            missing, words = self._who_is_missing(operation)
            limit = self._limit(operation)
            facts = (
                {} if operation in MESSAGES else {failure_facts.LIMIT: limit, failure_facts.SEQUENCE: self._sequence()}
            )
            return self._timeout(timed_out(f"{call}{at_site()}", limit, words), missing, facts)
        name = self._group.name(int(culprit))
        if status == c.UNREADABLE:
            text = (
                f"the array of rank {name} in {self._call(operation)} cannot be read any more: rank {name} has "
                f"unmapped or protected its memory, or may not be traced since. Keep arrays as they are while a call "
                f"uses them, or set SHMCOLL_DIRECT_BYTES=1T and SHMCOLL_EXCHANGE_BYTES=1T: then arrays of up to 16 GiB "
                f"are copied through shared memory"
            )
            self._end(records.ABORTED, text, {failure_facts.CULPRIT: int(culprit)})
            return RankFailed(f"{call}: {text}", rank=int(culprit))
        text = (
            f"{call}: the arena is damaged: what rank {name} has written there makes no sense (status {status}). "
            f"Either a program writes where it should not, or this is a bug in shmcoll; please report this"
        )
        self._end(records.BROKEN, text)
        return InternalError(text)

    def _call(self, operation: str) -> str:
        """Return the call as text: a collective with its number, a message with its peer and tag."""
        if operation in MESSAGES:
            peer, tag = self._words.item(c.ARGUMENT // WORD), self._words.item(c.ARGUMENT_2 // WORD)
            return message_in_words(self._group, operation, peer, tag)
        code, algorithm = (self._words.item(word // WORD) for word in (c.OPERATION, c.ALGORITHM))
        composite = algorithm >> layout.COMPOSITE_SHIFT if OPERATION_NAMES[code] == operation else 0
        return f"{composite_name(composite) if composite else operation} #{self._sequence()}"

    def _call_here(self, operation: str) -> str:
        return f"{self._call(operation)} on {self.where}"

    def _timeout(
        self, text: str, missing: Sequence[int], facts: Mapping[str, float] = MappingProxyType({})
    ) -> ShmcollError:
        """Return the error of a limit that has passed. One of the late ranks asks where all ranks are, while they
        run."""
        from shmcoll.diagnostics.explain_wait import explained
        from shmcoll.diagnostics.hang_report import STACKS_PATIENCE

        error = CollectiveTimeout(with_advice(text, what=self.how_to_wait_longer) + ".", missing=tuple(missing))
        with report_lock.turn(self._group, 2 * STACKS_PATIENCE) as mine:
            if mine:
                explained(error, self._arena, self._group, self._group.ranks[self._rank])
            self._end(records.TIMED_OUT, text, {failure_facts.MISSING: list(missing), **facts})
        return error

    def _disagreement(self, operation: str, advice: str) -> ShmcollError:
        """Return the error of a mismatch. Each rank that finds it notes its line; one reports.

        Ranks that have left the operation, or not come so far, do not note anything before the group ends. They note
        their lines when they learn of that, and then all ranks complete the text (`_completed`).
        """
        with report_lock.turn(self._group, 2 * waiting.SITES_PATIENCE) as mine:
            if mine:
                sequence = self._first_difference()
                is_late = any(has_left(self._group, rank, sequence) for rank in range(self._group.size))
                patience = 0 if is_late else waiting.SITES_PATIENCE
                sites, refused = report_lock.sites(self._group, sequence, patience), self._refusals(range(self.size))
                text = self._mismatch(sequence, sites, refused, advice)
                facts = {failure_facts.SEQUENCE: sequence, **({failure_facts.LATE: refused} if is_late else {})}
                self._end(records.MISMATCHED, text, facts)
        return self._first_cause(operation)

    def _mismatch(self, sequence: int, sites: list[str], refused: str, advice: str = "") -> str:
        told = self._who_called_what(sequence, sites) + refused
        return f"the ranks disagree in operation #{sequence}: {told}. {advice or advise(self._group, sequence)}"

    def _completed(self, failure: records.Record) -> str:
        """Return the text of a mismatch with the lines of all ranks that learn of it soon."""
        sequence = failure.facts.get(failure_facts.SEQUENCE)
        refused = failure.facts.get(failure_facts.LATE)
        if sequence is None or refused is None:
            return failure.text
        self._note_site(sequence)
        awaited = [
            rank for rank in range(self._group.size) if not records.how_ended(self._arena, self._group.ranks[rank])
        ]
        sites = report_lock.sites(self._group, sequence, waiting.SITES_PATIENCE, awaited)
        text = self._mismatch(sequence, sites, refused)
        if failure.rank == self._group.ranks[self._rank]:
            records.amend(self._group, self._rank, text)  # the launcher quotes it
        return text

    def _first_difference(self) -> int:
        return first_difference(self._group, self._sequence())

    def _note_site(self, sequence: int) -> None:
        if records.noted(self._group, self._rank, sequence) is None:
            records.note_site(self._group, self._rank, sequence, self._line(sequence))  # the launcher quotes it

    def _end_deadlock(self) -> None:
        """Several ranks of the circle may find it. One of them ends the group; what it knows now has no lines."""
        with report_lock.turn(self._group, 2 * waiting.SITES_PATIENCE) as mine:
            if mine:
                ranks = deadlock_report.circle(self._group, self._rank)
                calls = deadlock_report.calls(self._group, ranks, 0)
                self._end(records.DEADLOCKED, deadlock_report.in_words(self._group, calls))

    def _deadlock(self, operation: str, finder: int) -> ShmcollError:
        """Return `Deadlock` on each rank of the circle, `RankFailed` on others. All wait until the calls are known."""
        group, ranks = self._group, deadlock_report.circle(self._group, finder)
        source = deadlock_report.source(group, self._rank)
        if self._rank in ranks and (operation.startswith("recv") or operation not in MESSAGES):
            is_message = operation in MESSAGES
            waits = what_waits(group, [source], self._mail) if is_message else ""
            call = f"{self._call(operation)}{at_site()}{waits}"
            deadlock_report.note_call(group, self._rank, call)
        calls = deadlock_report.calls(group, ranks, waiting.SITES_PATIENCE)
        text = deadlock_report.in_words(group, calls)
        if self._rank == finder:
            for one in filter(None, (self, self.partner)):
                records.amend(one._group, finder, text)  # the launcher quotes it
            keeping.keep(self._circle, text)
        if self._rank in ranks:
            return Deadlock(text, missing=(source,), calls=calls)
        return RankFailed(f"{self._call_here(operation)}: {text}", rank=finder)

    def _raised(self, operation: str) -> BaseException:
        """Return the exception that a user's function has raised, by calling it again, in Python, on the same
        values."""
        x = BY_CODE[int(self._words[(c.X + c.DTYPE) // WORD])]
        function = of_kernel(int(self._words[c.KERNEL // WORD]))
        a = self._element(c.FIRST_VALUE, x.accumulator)
        b = self._element(c.SECOND_VALUE, x.numpy).astype(x.accumulator)
        error = function.raised(a.item(), b.item())
        text = (
            f"rank {self.name}: function {function.name} raised {type(error).__name__}: {error} "
            f"in {operation} #{self._sequence()}{at_site()}"
        )
        self._end(records.RAISED, text)
        self._ended = RankFailed(text, operation=operation, rank=self._rank)
        return error

    def _element(self, word: int, dtype: np.dtype) -> np.ndarray:
        """Return a copy of the element whose address is in a word of the context."""
        address = int(self._words[word // WORD])
        return np.frombuffer(ctypes.string_at(address, dtype.itemsize), dtype)[0]

    def _end(self, cause: int, text: str, facts: dict[str, Any] | None = None) -> None:
        culprit = (facts or {}).get(failure_facts.CULPRIT)
        whose = None if culprit is None else self._group.ranks[culprit]
        taken = None if self._is_shut else keeping.take(self._arena, cause, text, rank=whose, group=self._group)
        self._end_this(cause, text, facts)
        if cause == records.DEADLOCKED:
            self._circle = taken  # its text has no lines yet
        else:
            keeping.keep(taken)
        if self.partner:  # it knows no circle of this group, and no number of a collective
            cause = records.ABORTED if cause == records.DEADLOCKED else cause
            known = {name: fact for name, fact in (facts or {}).items() if name != failure_facts.SEQUENCE}
            self.partner._end_this(cause, text, known)

    def _end_this(self, cause: int, text: str, facts: dict[str, Any] | None) -> None:
        with self._lock:
            if not self._is_shut:
                records.end(self._group, self._rank, cause, text, facts)

    def _first_cause(self, operation: str) -> ShmcollError:
        call = self._call_here(operation)
        failure = records.first_failure(self._group)
        if failure is None:
            return RankFailed(f"{call}: the group was ended without a reason")
        if failure.cause == records.DEADLOCKED:
            return self._deadlock(operation, self._group.ranks.index(failure.rank))
        kind = _ERRORS.get(failure.cause, RankFailed)
        text = self._completed(failure) if kind is CollectiveMismatch else f"{call}: {failure.text}"
        if failure.cause == records.TIMED_OUT and self._rank in failure.facts.get(failure_facts.MISSING, ()):
            text = self._too_late(call, failure) or text
        return kind(text, **failure_facts.of_record(self._group, failure))

    def _too_late(self, call: str, failure: records.Record) -> str:
        """Return why a call fails on this rank, for which another one has waited in a collective; else nothing."""
        sequence, limit = (failure.facts.get(name) for name in (failure_facts.SEQUENCE, failure_facts.LIMIT))
        if sequence is None or limit is None:
            return ""
        waited = self._group.ranks.index(failure.rank)
        made = past_call(self._group, waited, sequence) + (records.site(self._group, waited, sequence) or "")
        return was_too_late(f"{call}{at_site()}", f"rank {self._group.name(waited)}, in {made},", limit)

    def _lost(self, operation: str, culprit: int) -> ShmcollError:
        """Return the error for a peer whose process has ended. A launcher of ours records how; give it a moment to."""
        call = self._call_here(operation)
        took_part = (
            self._group.published(culprit) >= self._sequence()
        )  # as did a rank that died while others were awaited
        how = f"left the job{'' if took_part else ' without taking part'}: its process has ended"
        # If rank 0 has made the arena, no launcher records it
        is_launched = self._arena.load(layout.JOB_CREATOR) != records.read(self._arena, 0, layout.BY_RANK).pid
        patience = waiting.KEEPING_PATIENCE if os.environ.get("SHMCOLL_DUMP") else waiting.LAUNCHER_PATIENCE
        end = time.monotonic() + (patience if is_launched else 0)
        meant_to = False
        while True:
            lives = (layout.BY_LAUNCHER, layout.BY_RANK)
            told = [records.read(self._arena, self._group.ranks[culprit], by) for by in lives]
            # A rank that has left may have known of a failure before, and have left because of it
            if self._group.has_ended() or records.first_failure(self._group):
                return self._first_cause(operation)
            if self._arena.load(self._group.mailbox(culprit) + layout.CLOSED):
                how = f"has closed the group{leftovers.where_left(self._group, culprit)}"
                meant_to = operation in MESSAGES or not took_part
                break
            if any(t.state == records.DEPARTED for t in told):
                how = "left the job without taking part: its program has ended"  # as it meant to, or by sys.exit
                meant_to = True
            if told[0].state == records.DEPARTED or time.monotonic() >= end:
                break
            time.sleep(0.001)
        text = f"rank {self._group.name(culprit)} {how}{self._refusals([culprit])}"
        self._end(records.VANISHED, text, {failure_facts.CULPRIT: culprit})
        advice = self._what_is_missing(operation, culprit) if meant_to else ""
        return RankFailed(f"{call}: {text}{advice}", rank=culprit)

    def _what_is_missing(self, operation: str, culprit: int) -> str:
        """Return which call of a rank that has ended as it meant to is missing."""
        if operation not in MESSAGES:
            return f". Every rank must make this call, and rank {self._group.name(culprit)} has not"
        return what_waits(self._group, [culprit], self._mail) if receives(operation) else ""

    # --- what the headers say -----------------------------------------------------------------------------------------

    def _sequence(self) -> int:
        return int(self._words[c.SEQUENCE // WORD])

    def _who_called_what(self, sequence: int, sites: list[str]) -> str:
        calls: dict[str, list[int]] = {}
        for rank, site in enumerate(sites):
            made = past_call(self._group, rank, sequence)
            calls.setdefault(f"called {made}{site}" if made else "has not called it", []).append(rank)
        return "; ".join(f"{self._group.names(ranks)} {call}" for call, ranks in calls.items())

    def _who_is_missing(self, operation: str) -> tuple[Sequence[int], str]:
        """Return the peers that have not published this operation, or else are late within it, without those that wait
        for others; and the same in words, with what each did last."""
        if operation in MESSAGES:
            peer = self._words.item(c.ARGUMENT // WORD)
            others = [rank for rank in range(self._group.size) if rank != self._rank]
            words = missing_message(self._group, self._words, operation, self._mail)
            return others if peer == layout.ANY else [peer], words
        sequence, told = self._sequence(), []
        late = not_arrived(self._group, self._rank, sequence)
        waits = {rank: awaited_by(self._group, rank) for rank in late}
        for rank, awaited in waits.items():
            seen = self._group.published(rank)
            last = f"last called {called(self._group, rank, seen)} as #{seen}" if seen else "has called nothing yet"
            if awaited is not None:  # a rank that is far ahead misses such ranks, too
                last += f", waits for rank {self._group.name(awaited)}"
            told.append(f"rank {self._group.name(rank)} did not arrive ({last})")
        if not late:
            stopped = self._who_stopped()
            return stopped, f"{self._group.names(stopped)} arrived but did not continue"
        missing = [rank for rank in late if waits[rank] is None] or late
        return missing, "; ".join(told) + self._refusals(range(self._group.size))

    def _who_stopped(self) -> list[int]:
        awaited = int(self._words[c.CULPRIT // WORD])
        return who_stopped(self._group, self._rank, awaited)

    def _refusals(self, ranks: Iterable[int]) -> str:
        """Return the calls refused just before this operation: the likely reason of a mismatch. A rank that is behind
        has refused its own next one."""
        told = {rank: records.ending(self._group, rank) for rank in ranks}
        since = {rank: min(self._sequence() - 1, self._group.published(rank)) for rank in told}
        recent = [t.text for r, t in told.items() if t.state == records.JOINED and t.text and t.code >= since[r]]
        return "".join(f". Before that, {text}" for text in recent)


class _Refusal(NamedTuple):
    """The first call of this rank that was refused in place of operation `place`, why, and how many more were."""

    place: int
    call: str
    why: str
    more: int = 0

    def words(self) -> str:
        return f"{self.call} was refused{f' (and {self.more} more after it)' if self.more else ''}: {self.why}"


class Checking:
    """`with failures.checking(op) as check`: a refused argument is noted for the peers and raised."""

    def __init__(self, failures: FailureReporter, operation: str):
        self._failures = failures
        self._operation = operation

    def __enter__(self) -> tuple[str, int]:
        return self._operation, self._failures.name

    def __exit__(self, _type: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if isinstance(error, Exception):  # also what an object of the user raises when it is made an array
            suggest(error, self._operation, traceback, self._failures.size)
            self._failures.refused(self._operation, error)
