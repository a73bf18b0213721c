"""The opening of every collective: all ranks of all nodes make the same call. Short arrays travel with it.

    1. all_gather in the node     the mark of each rank's call: a hash of its number, operation, arguments. What a rank
                                  brings travels with it, up to TINY bytes
    2. exchange of the leaders    each leader sends one message to each other one: the mark of its node, or 0 if its
                                  ranks disagree, and what its node offers
    3. broadcast in the node      the verdict of the leader, and the result that it has made from all offers

A rank leaves step 3 only after every rank of every node has entered step 1. All leaders see the same marks, so all
ranks reach the same verdict, before a byte of a result moves. If they disagree, every rank makes step 4: all of them
exchange what they have called, in words, and raise.

Who waits for whom: a rank for the ranks of its node (in shared memory), a leader for the other leaders (`progress.py`).
All of them have the same order of steps, so there is no circle. A leader of a node that disagrees sends its message all
the same.

A call has two marks. The first must be equal on all ranks. The second describes what only some ranks know, such as the
shape of an array that others have not allocated yet. It must be equal on all ranks on which it is not 0.

The message of a leader: both marks and the length of the offer, in words, then the offer. A receiver provides
LONGEST_OFFER bytes, so a message of another call, which may be longer than expected, does no harm.
"""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.diagnostics.call_site import at_site
from shmcoll.errors import CollectiveMismatch
from shmcoll.nodes.wire import OPENING, Pending

if TYPE_CHECKING:
    from shmcoll.communicator import Communicator
    from shmcoll.nodes.interfaces import NodesDispatcher

LONGEST_OFFER = 64 << 10  # bytes that a leader sends to another one in an opening
WORD = 8
_MARKS = 2
_HEAD = (_MARKS + 1) * WORD  # bytes before the offer
_SLOT = 256  # bytes of a rank's slot in the calls in the node: its marks, and what it brings
TINY = _SLOT - _MARKS * WORD  # bytes that a rank can bring; equal for all operations, so that they always meet
NOTHING = np.empty(0, np.uint8)

Offer = np.ndarray | Sequence[np.ndarray]  # bytes for all nodes, or for each
Facts = tuple[Any, ...]

UNKNOWN: Facts = ("None",)  # of a rank without an array, which messages call so
UNLIKE = CollectiveMismatch, "the ranks disagree"


class Agreement:
    """The openings of one group."""

    def __init__(self, dispatcher: "NodesDispatcher"):
        self._dispatcher = dispatcher
        self.sequence = 0
        self._slots = _Slots(dispatcher.inner)
        self._leaders = [ranks[0] for ranks in dispatcher.topology.nodes]
        self._messages: list[_Message] = []  # of the leaders, by node; sent ones behind them

    def open(
        self,
        facts: Facts,
        length: int = 0,
        offer: Callable[[], Offer] | None = None,
        combine: Callable[[list[np.ndarray], np.ndarray], None] | None = None,
        *,
        brought: np.ndarray | None = None,
        merge: Callable[[np.ndarray], Offer] | None = None,
        partly_known: Facts | None = None,
        unlike: tuple[type[Exception], str] = UNLIKE,
    ) -> np.ndarray:
        """Agree on a call, and return `length` bytes that `combine` has made on the leader from all nodes' offers.

        Args:
            facts: what must be equal on all ranks: the operation and its arguments.
            length: bytes of the result, equal on all ranks of a node.
            offer: makes the offer of this node; called on all its ranks once they agree; the leader's counts. By
                default nothing is offered.
            combine: writes the result, on the leader, from the offers by node.
            brought: bytes of this rank, TINY at most and as many on all ranks; and
            merge: in place of `offer`, makes the offer on the leader, from rows of what its ranks have brought.
            partly_known: what must be equal on all ranks that know it.
            unlike: the exception for `partly_known` that is not equal, and the beginning of its text.
        """
        d, slots = self._dispatcher, self._slots
        self.sequence += 1
        slots.marks[:] = (_mark(facts) + self.sequence) & _MOST or 1, _mark(partly_known)
        length_brought = 0 if brought is None else brought.size
        if brought is not None:
            slots.brought[:length_brought] = brought
        slots.gather()
        marks = slots.all_marks.tolist()
        first, second = _common([one for one, _ in marks]), _known([two for _, two in marks])
        agree = first != 0 and second >= 0
        offered = offer() if agree and offer else NOTHING
        if agree and merge and d.is_leader:
            offered = merge(slots.all_brought[:, :length_brought])
        size = WORD + (length if agree else 0)  # else the ranks of a node may differ in it
        told = slots.told[:size] if size <= _SLOT else np.empty(size, np.uint8)
        if d.is_leader:
            heard = self._exchange((first, second), offered)
            first, second = _common([one.first for one in heard]), _known([one.second for one in heard])
            told[:WORD].view(np.int64)[0] = verdict = 1 if first == 0 else 2 if second < 0 else 0
            if combine and not verdict:
                combine([one.offer for one in heard], told[WORD:])
        if size <= _SLOT:
            slots.publish()
        elif slots.are_shared:
            d.inner.broadcast(told, 0)
        if verdict := told[:WORD].view(np.int64).item(0):
            self._disagree(facts, partly_known, UNLIKE if verdict == 1 else unlike)
        return told[WORD:]

    def texts(self, text: str) -> list[str]:
        """Return the texts of all ranks, by rank, each shortened if necessary. Every rank calls it."""
        d = self._dispatcher
        most = LONGEST_OFFER // (8 * max(map(len, d.topology.nodes)))
        local = d.inner.gather_object(text[:most], 0)
        mine = np.frombuffer(json.dumps(local).encode(), np.uint8) if local is not None else NOTHING
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
        if not self._messages:
            self._messages = [_Message() for _ in range(2 * len(leaders))]
        heard, sent = self._messages[: len(leaders)], self._messages[len(leaders) :]
        pending = Pending(d.channel)
        for node, leader in enumerate(leaders):
            if node != own:
                pending.recv(heard[node].memory, leader, OPENING)
        if isinstance(offered, np.ndarray):
            sent[own].write(marks, offered)
            to = [sent[own]] * len(leaders)
        else:
            to = sent
            for message, one in zip(sent, offered, strict=True):
                message.write(marks, one)
        for node in (*range(own + 1, len(leaders)), *range(own)):
            pending.send(to[node].written, leaders[node], OPENING)
        d.wait(pending)
        return [sent[own] if node == own else message for node, message in enumerate(heard)]

    def _disagree(self, facts: Facts, partly_known: Facts | None, unlike: tuple[type[Exception], str]) -> None:
        """Raise on all ranks what each of them has called."""
        d = self._dispatcher
        kind, beginning = unlike
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


_MOST = (1 << 62) - 1


@lru_cache(maxsize=4096)
def _mark(facts: Facts | None) -> int:
    """Return a hash that is above 0 and the same in every process; 0 for None."""
    if facts is None or facts == UNKNOWN:
        return 0
    return int.from_bytes(blake2b(repr(facts).encode(), digest_size=8).digest(), "little") >> 2 or 1


def _common(marks: list[int]) -> int:
    """Return the value that all have; 0 if they differ."""
    return marks[0] if marks.count(marks[0]) == len(marks) else 0


def _known(marks: list[int]) -> int:
    """Return the value of all that are not 0; 0 if all are, and -1 if they differ."""
    known = [mark for mark in marks if mark]
    return 0 if not known else known[0] if known[0] > 0 and known.count(known[0]) == len(known) else -1


class _Slots:
    """The memory of the two calls in the node, with their plans. What `publish` has brought is there until the next
    opening."""

    def __init__(self, inner: "Communicator"):
        self.are_shared = inner.size > 1
        own = np.zeros((1, _SLOT), np.uint8)
        rows = np.zeros((inner.size, _SLOT), np.uint8) if self.are_shared else own
        self.told = np.zeros(_SLOT, np.uint8)
        self.marks = own[0].view(np.int64)[:_MARKS]
        self.brought = own[0, _MARKS * WORD :]
        self.all_marks = rows.view(np.int64)[:, :_MARKS]
        self.all_brought = rows[:, _MARKS * WORD :]
        self.gather: Callable[[], object] = lambda: None
        self.publish = self.gather
        if self.are_shared:
            self.gather = inner.plan("all_gather", own, out=rows)
            self.publish = inner.plan("broadcast", self.told, 0)


class _Message:
    """Memory for one message of a leader."""

    def __init__(self) -> None:
        self.memory = np.empty(_HEAD + LONGEST_OFFER, np.uint8)
        self._head = self.memory[:_HEAD].view(np.int64)

    def write(self, marks: tuple[int, int], offer: np.ndarray) -> None:
        self._head[:] = *marks, offer.size
        self.memory[_HEAD : _HEAD + offer.size] = offer

    @property
    def written(self) -> np.ndarray:
        return self.memory[: _HEAD + self._head.item(2)]

    @property
    def first(self) -> int:
        return self._head.item(0)

    @property
    def second(self) -> int:
        return self._head.item(1)

    @property
    def offer(self) -> np.ndarray:
        return self.memory[_HEAD : _HEAD + self._head.item(2)]


def _in_words(facts: Facts, partly_known: Facts | None) -> str:
    """Return a call in words: `all_reduce(shape (4,), float32, sum)`."""
    operation, *more = facts
    more = [*(partly_known or ()), *more]
    return f"{operation}({', '.join(str(one) for one in more if one not in (None, ''))})"
