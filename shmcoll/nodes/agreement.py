"""The opening of every collective: all ranks of all nodes make the same call. Short arrays travel with it.

    1. all_gather in the node     the mark of each rank's call: a hash of its number, operation, arguments. What a rank
                                  brings travels with it, up to 240 bytes
    2. exchange of the leaders    each leader sends one message to each other one: the mark of its node, or 0 if its
                                  ranks disagree, and what its node offers
    3. broadcast in the node      the verdict of the leader, and the result that it has made from all offers

A rank leaves step 3 only after every rank of every node has entered step 1. All leaders see the same marks, so all
ranks reach the same verdict, before a byte of a result moves. If they disagree, every rank makes step 4: all of them
exchange what they have called, in words, and raise.

There are five forms, in the same memory and with the same formats, so that they always meet. Four are native. In
`open_rows` (`native/opening.py`), a node offers what its ranks have brought, and all ranks get all of it. In
`open_array` (`native/root_opening.py`), one rank brings something for all. In `open_counts`
(`native/counted_opening.py`), the ranks bring tables of counts, and arrays of different lengths. In `open_partials`
(`native/partial_opening.py`), a node offers what it has reduced. In `open`, which is here, a node offers what its
ranks have made together, and the leaders make the result.

Who waits for whom: a rank for the ranks of its node (in shared memory), a leader for the other leaders (`progress.py`).
All of them have the same order of steps, so there is no circle. A leader of a node that disagrees sends its message all
the same.

A call has two marks. The first must be equal on all ranks. The second describes what only some ranks know, such as the
shape of an array that others have not allocated yet. It must be equal on all ranks on which it is not 0.

The message of a leader: both marks and the length of the offer, in words, then the offer. A receiver provides
LONGEST_OFFER bytes, so a message of another call, which may be longer than expected, does no harm.

Cost: 2 a + A + (N - 2) o + (N - 1) S / B, for an offer of S bytes. N nodes, a a sync in the node, A the time of a
message between two leaders, o the work of a leader for each further one, B bytes per second of a node's link each way.
"""

import json
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.collectives import OPERATION_NAMES
from shmcoll.diagnostics.call_site import at_site
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import CollectiveMismatch
from shmcoll.nodes.native.layout import HEAD, PARTLY_UNLIKE, SLOT_BYTES, UNLIKE
from shmcoll.nodes.native.state import LONGEST_OFFER, LONGEST_ROWS, OpeningState
from shmcoll.nodes.progress import Wait
from shmcoll.nodes.wire import OPENING, Pending

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

NOTHING = np.empty(0, np.uint8)

Offer = np.ndarray | Sequence[np.ndarray]  # bytes for all nodes, or for each
Facts = tuple[Any, ...]

UNKNOWN: Facts = ("None",)  # of a rank without an array, which messages call so
DISAGREE = CollectiveMismatch, "the ranks disagree"


class Agreement:
    """The openings of one group."""

    def __init__(self, dispatcher: "NodesDispatcher"):
        self._dispatcher = dispatcher
        self.state = OpeningState(dispatcher, self._watch)
        self._leaders = [ranks[0] for ranks in dispatcher.topology.nodes]
        self._is_alone = len(dispatcher.topology.local) == 1  # on its node
        self._wait: Wait | None = None  # of a leader in a native opening
        self.verdict = 0  # of a native opening, for the call that Python makes to report it
        inner, state = dispatcher.inner, self.state
        self._marks = state.slots.view(np.int64)[:, :2]
        self._gather: Callable[[], object] = lambda: None
        self._publish = self._gather
        if not self._is_alone:
            self._gather = inner.plan("all_gather", state.slot, out=state.slots)
            self._publish = inner.plan("broadcast", state.told[:SLOT_BYTES], 0)

    def carries(self, length: int, most: int = LONGEST_ROWS) -> bool:
        """Return whether `open_rows` carries so many bytes of each rank, where it carries up to `most`."""
        return length <= min(self.state.most_row, most)

    @property
    def sequence(self) -> int:
        """The number of the last opening."""
        return self.state.sequence

    def open_rows(
        self,
        facts: Facts,
        brought: np.ndarray,
        *,
        partly_known: Facts | None = None,
        unlike: tuple[type[Exception], str] = DISAGREE,
        native: tuple[np.ndarray | None, int, int] | None = None,
    ) -> np.ndarray:
        """Agree on a call, and return what all ranks have brought, as rows by rank.

        Args:
            facts: what must be equal on all ranks: the operation and its arguments.
            brought: bytes of this rank, as many on all ranks, as many as it `carries` at most.
            partly_known: what must be equal on all ranks that know it.
            unlike: the exception for `partly_known` that is not equal, and the beginning of its text.
            native: operand, reduction and root of the call, if native code may make calls of this form by itself.
        """
        self._open(
            facts, partly_known, unlike, native, lambda first, second: self.state.open_rows(first, second, brought)
        )
        return self.state.rows(brought.size)

    def open_partials(self, facts: Facts, length: int, native: tuple[np.ndarray | None, int, int] | None) -> np.ndarray:
        """Agree on a reduction that has been described in the state, and return the bytes of its result, which are
        there until the next opening.

        Args:
            facts: see `open_rows`.
            length: bytes of the result.
            native: see `open_rows`.
        """
        self._open(facts, None, DISAGREE, native, lambda first, second: self.state.open_partials(first, second))
        return self.state.told[WORD:][:length]

    def open_array(
        self,
        facts: Facts,
        brought: np.ndarray,
        array: np.ndarray | None,
        follows: int,
        root: int,
        *,
        partly_known: Facts | None = None,
        unlike: tuple[type[Exception], str] = DISAGREE,
        native: tuple[np.ndarray | None, int, int] | None = None,
    ) -> np.ndarray:
        """Agree on a call, and return the description that the root has brought. What follows it is in the state.

        Args:
            facts: see `open_rows`.
            brought: MOST_BROUGHT bytes, which count on the root.
            array: the bytes of the root's array, on the root, if they may follow.
            follows: how many bytes follow, on a rank that knows them; see `native/root_opening.py`.
            root: the rank.
            partly_known: see `open_rows`.
            unlike: see `open_rows`.
            native: see `open_rows`.
        """
        address = array.ctypes.data if array is not None else 0
        self._open(
            facts,
            partly_known,
            unlike,
            native,
            lambda first, second: self.state.open_array(first, second, brought, address, follows, root),
        )
        return self.state.description().copy()

    def open_counts(
        self,
        facts: Facts,
        table: int,
        source: np.ndarray,
        most: int,
        sender: int,
        receiver: int,
        *,
        partly_known: Facts | None,
        unlike: tuple[type[Exception], str],
        native: tuple[np.ndarray | None, int, int] | None,
    ) -> int:
        """Agree on a call with counts, and exchange the tables of all ranks. Return OK, or REFUSED if they do not fit.

        Args:
            facts: see `open_rows`.
            table: the address of this rank's table, which what it receives is written to.
            source: the bytes that it sends.
            most: of how many of these the opening carries all, if there is room.
            sender: the only rank that sends, or ANYONE.
            receiver: the only rank that receives, or ANYONE.
            partly_known: see `open_rows`.
            unlike: see `open_rows`.
            native: see `open_rows`.
        """
        return self._open(
            facts,
            partly_known,
            unlike,
            native,
            lambda first, second: self.state.open_counts(first, second, table, source, most, sender, receiver),
        )

    def _open(
        self,
        facts: Facts,
        partly_known: Facts | None,
        unlike: tuple[type[Exception], str],
        native: tuple[np.ndarray | None, int, int] | None,
        make: Callable[..., int],
    ) -> int:
        """Make an opening in native code, from the marks of this rank, unless it has been made and has found that the
        ranks disagree. Raise if they do. Return OK or REFUSED."""
        state, first, second, status = self.state, _mark(facts), _mark(partly_known), int(c.OK)
        if not self.verdict:
            if native is not None:
                state.remember(facts[0], (first, second), *native)
            status = make(first, second)
            if status not in (c.MISMATCH, c.REFUSED):
                self.check(status)
            self.verdict = state.verdict if status == c.MISMATCH else 0
        if self.verdict:
            self._disagree(facts, partly_known, unlike)
        return status

    def open(
        self,
        facts: Facts,
        length: int = 0,
        offer: Callable[[], Offer] | None = None,
        combine: Callable[[list[np.ndarray], np.ndarray], None] | None = None,
        *,
        partly_known: Facts | None = None,
        unlike: tuple[type[Exception], str] = DISAGREE,
    ) -> np.ndarray:
        """Agree on a call, and return `length` bytes that `combine` has made on the leader from all nodes' offers.

        Args:
            facts: see `open_rows`.
            length: bytes of the result, equal on all ranks of a node.
            offer: makes the offer of this node; called on all its ranks once they agree; the leader's counts. By
                default nothing is offered.
            combine: writes the result, on the leader, from the offers by node.
            partly_known: see `open_rows`.
            unlike: see `open_rows`.
        """
        d, state = self._dispatcher, self.state
        state.next_slot(_mark(facts), _mark(partly_known))
        self._gather()
        marks = self._marks.tolist()
        first, second = _common([one for one, _ in marks]), _known([two for _, two in marks])
        agree = first != 0 and second >= 0
        offered = offer() if agree and offer else NOTHING
        size = WORD + (length if agree else 0)  # else the ranks of a node may differ in it
        told = state.told[:size] if size <= SLOT_BYTES else np.empty(size, np.uint8)
        if d.is_leader:
            heard = self._exchange((first, second), offered)
            first, second = _common([one.first for one in heard]), _known([one.second for one in heard])
            told[:WORD].view(np.int64)[0] = verdict = UNLIKE if first == 0 else PARTLY_UNLIKE if second < 0 else 0
            if combine and not verdict:
                combine([one.offer for one in heard], told[WORD:])
        if size <= SLOT_BYTES:
            self._publish()
        elif not self._is_alone:
            d.inner.broadcast(told, 0)
        self.verdict = told[:WORD].view(np.int64).item(0)
        if self.verdict:
            self._disagree(facts, partly_known, unlike)
        return told[WORD:]

    def move(self, name: str, *arguments: int) -> int:
        """Move the bytes of a call in native code, after its opening; see `OpeningState.move`. Returns OK."""
        return self.check(self.state.move(name, *arguments))

    def check(self, status: int) -> int:
        """Return the status OK of native code; raise why it has returned another one."""
        if status == c.OK:
            return status
        d, (where, code) = self._dispatcher, self.state.failed
        if where == "MPI":
            mpi = d.channel.wire.mpi
            text = mpi.Get_error_string(code) if code else "a message of another length than this call has"
            d.progress.lost(d.failures, self.state.missing(), text)
            d.failures.raise_if_ended(d.operation)
        raise d.inner._dispatcher.failures.error(where, code)

    def keep_memory(self) -> None:
        """Keep the arrays of the calls that this thread is in, and of the exception that it handles, until the end of
        the job: MPI may still read and write them, if messages are on their way. Native code knows only addresses."""
        if not self.state.abandoned() and not self._dispatcher.mail.uses_arrays:
            return
        kept, frame, traceback = [], sys._getframe(1), sys.exc_info()[2]
        while frame is not None:
            kept.append(frame)
            frame = frame.f_back  # type: ignore[assignment]
        while traceback is not None:
            kept.append(traceback.tb_frame)
            traceback = traceback.tb_next
        ours = [dict(one.f_locals) for one in kept if one.f_globals.get("__name__", "").startswith("shmcoll.")]
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
        d.progress.look_around(d.failures, wait)
        self.state.sleeps(wait.sleeps)

    _turn = 0

    def texts(self, text: str) -> list[str]:
        """Return the texts of all ranks, by rank, each shortened if necessary. Every rank calls it."""
        d = self._dispatcher
        most = LONGEST_OFFER // (8 * max(map(len, d.topology.nodes)))
        local = d.inner.gather_object(text[:most], 0)
        mine = np.frombuffer(to_bytes(json.dumps(local)), np.uint8) if local is not None else NOTHING
        found: list[str] = [""] * d.size
        if d.is_leader:
            heard = self._exchange((0, 0), mine)
            for ranks, one in zip(d.topology.nodes, heard, strict=True):
                for rank, told in zip(ranks, json.loads(one.offer.tobytes()), strict=True):
                    found[rank] = told
        told_all: list[str] = d.inner.broadcast_object(found, 0)
        return told_all

    def _exchange(self, marks: tuple[int, int], offered: Offer) -> "list[_Message]":
        """Send the message of this node to all other leaders, and return theirs by node."""
        d = self._dispatcher
        leaders, own = self._leaders, d.topology.node
        heard = [_Message(memory) for memory in self.state.messages]
        pending = Pending(d.channel)
        for node, leader in enumerate(leaders):
            if node != own:
                pending.recv(heard[node].memory, leader, OPENING)
        if isinstance(offered, np.ndarray):
            heard[own].write(marks, offered)
            to = [heard[own]] * len(leaders)
        else:
            to = [_Message(np.empty(HEAD + one.size, np.uint8)) for one in offered]
            to[own] = heard[own]
            for message, one in zip(to, offered, strict=True):
                message.write(marks, one)
        for node in (*range(own + 1, len(leaders)), *range(own)):
            pending.send(to[node].written, leaders[node], OPENING)
        d.wait(pending)
        return heard

    def _disagree(self, facts: Facts, partly_known: Facts | None, unlike: tuple[type[Exception], str]) -> None:
        """Raise on all ranks what each of them has called."""
        d = self._dispatcher
        verdict, self.verdict = self.verdict, 0
        kind, beginning = DISAGREE if verdict == UNLIKE else unlike
        texts = self.texts(_in_words(facts, partly_known) + at_site())
        calls: dict[str, list[int]] = {}
        for rank, text in enumerate(texts):
            calls.setdefault(text, []).append(rank)
        told = "; ".join(
            f"{', '.join(d.topology.describe(rank) for rank in ranks)} called {text}" for text, ranks in calls.items()
        )
        text = f"{beginning} in operation #{self.sequence}: {told}"
        self.refuse(kind, text, dict(enumerate(texts)))

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


@lru_cache(maxsize=4096)
def _mark(facts: Facts | None) -> int:
    """Return a hash that is above 0 and the same in every process; 0 for None."""
    if facts is None or facts == UNKNOWN:
        return 0
    return int.from_bytes(blake2b(to_bytes(repr(facts)), digest_size=8).digest(), "little") >> 2 or 1


def _common(marks: list[int]) -> int:
    """Return the value that all have; 0 if they differ."""
    return marks[0] if marks.count(marks[0]) == len(marks) else 0


def _known(marks: list[int]) -> int:
    """Return the value of all that are not 0; 0 if all are, and -1 if they differ."""
    known = [mark for mark in marks if mark]
    return 0 if not known else known[0] if known[0] > 0 and known.count(known[0]) == len(known) else -1


class _Message:
    """A message of a leader, in its memory."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory
        self._head = memory[:HEAD].view(np.int64)

    def write(self, marks: tuple[int, int], offer: np.ndarray) -> None:
        self._head[:] = *marks, offer.size
        self.memory[HEAD : HEAD + offer.size] = offer

    @property
    def written(self) -> np.ndarray:
        return self.memory[: HEAD + self._head.item(2)]

    @property
    def first(self) -> int:
        return self._head.item(0)

    @property
    def second(self) -> int:
        return self._head.item(1)

    @property
    def offer(self) -> np.ndarray:
        return self.memory[HEAD : HEAD + self._head.item(2)]


def _in_words(facts: Facts, partly_known: Facts | None) -> str:
    """Return a call in words: `all_reduce(shape (4,), float32, sum)`."""
    operation, *more = facts
    more = [*(partly_known or ()), *more]
    return f"{operation}({', '.join(str(one) for one in more if one not in (None, ''))})"
