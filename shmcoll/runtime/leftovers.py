"""What a program leaves behind in a group: a line for each kind on stderr, when the rank leaves the group or the job.

Messages that no receive has taken are told by the rank that they were sent to. It looks when it leaves, so messages
that come later are not seen.

With the check of buffers (SHMCOLL_CHECK) a rank also tells the handles of asynchronous calls that the program has not
looked at, and, as their sender, the lines of messages that were not received. For the lines it keeps those of its last
messages to each rank with each tag. Messages with one tag are received in the order in which they were sent, so those
that are left are the last ones.

Each rank notes, as a site in the arena, that it leaves, where, and with the check which messages it leaves behind. Only
that rank writes its site. A sender whose messages may be among them waits for the notes of their receivers, for at most
`LEAVING_PATIENCE` seconds. Each rank notes before it waits, so ranks that leave at the same time do not wait for each
other.

A rank that leaves after eager calls may not have compared them with all others (`engine/protocol/sync.py`). So it looks
at the headers that are there, at the last call that both ranks have published. The headers of ranks that have left
stay. So of two ranks that have made different calls, the one that leaves last finds it, and nobody waits. A header that
is compared is not written over meanwhile: its rank would need a later call of this one. The site of a rank that leaves
has the lines of those calls, because the rank may have ended when another one tells them.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import numpy as np

from shmcoll.collectives import OPERATION_NAMES
from shmcoll.diagnostics import report_lock
from shmcoll.diagnostics.call_site import Site, at_site, here, places
from shmcoll.diagnostics.describe_call import message_in_words
from shmcoll.diagnostics.describe_message import messages_of
from shmcoll.engine import context as c
from shmcoll.engine.layout import HEADER_HISTORY, WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.engine.messages.buffers import MessageBuffers, SeenMessages
from shmcoll.engine.messages.send import BEGIN, BESIDE, STORE
from shmcoll.engine.system import log
from shmcoll.runtime import lost_failures, waiting

_KEPT = 8  # lines for each receiver and tag
_TOLD = 100  # messages of each sender
MEETS = -3  # the same where all ranks meet before they leave, as in MPI_Finalize
_LEFT = "left"  # the fact of that site: the tags of the messages that were not received, by sender


class LeavingDispatcher(Protocol):
    """The part of the communicator's `Dispatcher` that is used here."""

    group: Group
    rank: int
    words: np.ndarray
    buffers: MessageBuffers
    sent: "SentMessages | None"
    worker: Any
    failures: Any


class SentMessages:
    """The lines of the last messages of this rank in a group, by receiver and tag."""

    def __init__(self) -> None:
        self._sites: dict[tuple[int, int], deque[Site | None]] = defaultdict(partial(deque, maxlen=_KEPT))

    def noting(self, send: Callable[..., int]) -> Callable[..., int]:
        """Return the native entry of `send`, which notes the line of each message that begins. It does so before, as
        the receiver may leave as soon as it has seen the message."""

        def noted(x: Any, place: Any, memory: Any, dest: Any, *rest: Any) -> int:
            if memory not in (BEGIN, BESIDE, STORE):
                return send(x, place, memory, dest, *rest)
            sites, site = self._sites[dest, rest[0]], here()
            sites.append(site)
            status = send(x, place, memory, dest, *rest)
            if status in (c.NEEDS_PYTHON, c.BUSY):
                with suppress(ValueError):  # so many have followed that it is not kept any more
                    sites.remove(site)
            return status

        return noted

    def receivers(self) -> list[int]:
        """Return the ranks to which messages were sent."""
        return list(dict.fromkeys(dest for dest, _ in self._sites))

    def calls(self, group: Group, dest: int, tags: list[int]) -> str:
        """Return the calls that have sent the last messages with these tags to a rank."""
        return "; ".join(self._call(group, dest, tag, number) for tag, number in Counter(tags).items())

    def _call(self, group: Group, dest: int, tag: int, number: int) -> str:
        where = places(list(self._sites[dest, tag])[-number:])
        return message_in_words(group, "send", dest, tag) + (f" at {where}" if where else "")


def where_left(group: Group, rank: int) -> str:
    """Return where a rank has left the group: ' at train.py:30'; empty if that is not known."""
    return records.site(group, rank, report_lock.LEAVES) or ""


def tell(dispatcher: LeavingDispatcher) -> None:
    """Print what this rank leaves behind in a group, unless something has failed."""
    if _is_over(dispatcher):
        return
    if (peer := _other_calls(dispatcher)) is not None:
        _fail(dispatcher, peer)
        return
    for line in _lines(dispatcher):
        log.warning(f"{dispatcher.failures.where}: {line}")


def _other_calls(dispatcher: LeavingDispatcher) -> int | None:
    """Return a rank whose calls were not those of this rank, as far as both have come. None if there is none, and if
    this rank has compared its last call with all others."""
    group, words = dispatcher.group, dispatcher.words
    mine = words.item(c.SEQUENCE // WORD)
    if mine == words.item(c.CREDIT // WORD):
        return None
    for peer in range(group.size):
        number = min(mine, group.published(peer))
        both = (group.arena.load(group.header(rank, number) + HEADER_HISTORY) for rank in (dispatcher.rank, peer))
        if number > 0 and len(set(both)) > 1:
            return peer
    return None


def _fail(dispatcher: LeavingDispatcher, peer: int) -> None:
    """End the group, since a rank has made other calls. The program cannot see the error: it is printed, and the exit
    code of the process will be 1."""
    dispatcher.words[c.CULPRIT // WORD] = peer
    operation = OPERATION_NAMES[dispatcher.words.item(c.OPERATION // WORD)]
    error = dispatcher.failures.error(operation, c.MISMATCH)
    failure = lost_failures.Failure(error, lambda: f"{dispatcher.failures.where}: {error}")
    lost_failures.note(failure)
    lost_failures.tell(failure)


def note_all(dispatchers: Iterable[LeavingDispatcher]) -> None:
    """Note what this rank leaves behind in groups that it is about to leave. Each rank may leave them in another order:
    no rank waits for a note of a rank that waits for its own."""
    for dispatcher in dispatchers:
        if dispatcher.sent and not _is_over(dispatcher):
            note(dispatcher)


def _is_over(dispatcher: LeavingDispatcher) -> bool:
    return bool(dispatcher.group.has_ended() or dispatcher.failures.has_failed())


def _lines(dispatcher: LeavingDispatcher) -> Iterator[str]:
    group, sent = dispatcher.group, dispatcher.sent
    if left := note(dispatcher):
        hint = "" if sent else ". With SHMCOLL_CHECK=1 (shmrun --check) the ranks that sent them tell their lines"
        yield f"messages were never received: {messages_of(group, left, dispatcher.buffers)}{hint}"
    if unseen := places((dispatcher.worker.unseen or {}).values()):
        yield f"the program has not waited for asynchronous calls: {unseen}"
    yield from sends(dispatcher)


def note(dispatcher: LeavingDispatcher, place: int = report_lock.LEAVES) -> dict[int, list[int]]:
    """Note for the other ranks what this rank leaves behind. Return the tags of messages by their senders."""
    group = dispatcher.group
    buffers = dispatcher.buffers
    left = {source: tags for source in buffers.senders() if (tags := buffers.waiting(source)[-_TOLD:])}
    facts: dict[str, Any] = {_LEFT: left} if dispatcher.sent else {}
    if lines := dispatcher.failures.lines_not_compared():
        facts[report_lock.LINES] = lines
    records.note_site(group, dispatcher.rank, place, at_site(), facts)
    return left


def sends(dispatcher: LeavingDispatcher, place: int = report_lock.LEAVES) -> Iterator[str]:
    """Yield what other ranks leave behind of the messages of this one, with the check of buffers."""
    group, rank, sent = dispatcher.group, dispatcher.rank, dispatcher.sent
    if sent is None:
        return
    end = time.monotonic() + waiting.LEAVING_PATIENCE
    for dest in sent.receivers():
        if SeenMessages(group, dest).waiting(rank) and (tags := _await_left(group, dest, rank, place, end)):
            yield f"rank {group.name(dest)} has never received {sent.calls(group, dest, tags)}"


def _await_left(group: Group, dest: int, source: int, place: int, end: float) -> list[int]:
    """Return the tags of the messages from `source` that another rank leaves behind, once it has noted that."""
    while (told := records.noted(group, dest, place)) is None:
        if time.monotonic() > end or records.how_ended(group.arena, group.ranks[dest]):
            return []
        time.sleep(waiting.NAP)
    tags = told.facts.get(_LEFT, {}).get(str(source), [])
    return tags if isinstance(tags, list) else []
