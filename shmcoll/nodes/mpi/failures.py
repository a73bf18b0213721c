"""Why a group over nodes has ended, and how all its ranks learn it.

A rank that finds a reason (`end`) does three things, in this order. It keeps the error for its own later calls. It
writes the reason into the regions of the node's two groups, for algorithms and for messages (`within.py`), and ends
these groups, which wakes the ranks of its node. It sends the reason to each rank of the other nodes on the control
channel (`wire.py`). A rank that hears of a reason there ends
the group of its node in the same way, and sends nothing. So the reason reaches each node on as many ways as it has
ranks that wait for MPI, and each rank of a node through shared memory.

A rank that is in shared memory when a group of its node ends takes the reason from there (`of_node`, `of_messages`). If
the engine has found it, because a rank of the node has died or raised, this rank is the first that can tell the other
nodes, and does.

The first rank of a node that ends the group because of a timeout adds a table to its error: where the ranks of its node
are. It asks them before it ends the group, while they still wait, for less than a second.

Nobody waits for a control message to arrive, so a rank that does not listen keeps no other rank waiting.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.diagnostics import keeping, other_threads
from shmcoll.diagnostics.describe_call import call_over_nodes
from shmcoll.diagnostics.meant_call import suggest
from shmcoll.diagnostics.report_lock import alone
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import RankName
from shmcoll.engine.memory.node_words import last_call
from shmcoll.engine.system.handlers import ignored
from shmcoll.errors import (
    CollectiveMismatch,
    CollectiveTimeout,
    InternalError,
    RankFailed,
    ShmcollError,
)
from shmcoll.nodes.mpi import mpi_end
from shmcoll.runtime.failure_facts import CULPRIT, again

if TYPE_CHECKING:
    from shmcoll.communicator import Communicator
    from shmcoll.engine.memory.group import Group
    from shmcoll.nodes.mpi.topology import Topology
    from shmcoll.nodes.mpi.wire import Channel
    from shmcoll.nodes.point_to_point.within import Within

_KINDS: dict[str, type[ShmcollError]] = {
    kind.__name__: kind for kind in (RankFailed, CollectiveTimeout, CollectiveMismatch, InternalError)
}
_CAUSES: dict[type[ShmcollError], int] = {
    CollectiveTimeout: records.TIMED_OUT,
    CollectiveMismatch: records.MISMATCHED,
    InternalError: records.BROKEN,
}
_KIND_OF_CAUSE = {cause: kind for kind, cause in _CAUSES.items()}
_OF_THE_LIVING = records.ABORTED, records.INTERRUPTED, records.DEADLOCKED
_FACTS = "nodes"  # in the record of the node's group: class of the error, and its attributes


class Failures:
    """What has ended one group over nodes. inner: the communicator of the group's ranks on this node, and messages:
    another one, for messages."""

    def __init__(
        self,
        topology: "Topology",
        channel: "Channel",
        inner: "Communicator",
        messages: "Within",
        name: RankName,
        words: np.ndarray,
    ):
        self.name = name  # in messages
        self._words = words  # the context of the group
        self.topology = topology
        self._channel = channel
        self._inner = inner
        self._messages = messages._dispatcher
        self._messages.failures.owner = self
        self.ended: ShmcollError | None = None
        self._where = ""  # where the ranks of this node were, when this rank ended the group because of a timeout
        self.is_told = False  # whether a call of the program has raised why the group has ended
        self.is_shut = False
        self.timeout = 0.0  # the limit of one wait of the group

    def world(self, rank: int) -> int:
        """Return the number in the job of a rank of the group."""
        return self._channel.ranks[rank]

    def has_failed(self) -> bool:
        """Return whether an exception has ended this rank's program."""
        return self._inner._dispatcher.failures.has_failed()

    def checking(self, operation: str) -> "Checking":
        return Checking(operation, self.name, self.topology.size)

    def error(self, operation: str, status: int) -> BaseException:
        """Return the error for the status NOT_ALONE."""
        assert status == c.NOT_ALONE
        return other_threads.error(self._words, operation, self.name)

    def raise_if_ended(self, operation: str) -> None:
        """Raise why the group has ended, if it has."""
        if self.ended is None and self._inner._dispatcher.group.has_ended():
            self.of_node()
        if self.ended is not None:
            self.is_told = True
            error = again(self.ended)
            error.operation = operation
            if self._where:
                error.add_note(self._where)
                self._where = ""
            error.is_why_it_ended = True  # type: ignore[attr-defined]
            raise error

    @staticmethod
    def has_raised(error: ShmcollError) -> bool:
        """Return whether an error comes from `raise_if_ended`."""
        return getattr(error, "is_why_it_ended", False)

    def end(
        self,
        kind: type[ShmcollError],
        text: str,
        *,
        rank: int | None = None,
        missing: Sequence[int] = (),
        dead: int | None = None,
        telling: bool = True,
    ) -> None:
        """End the group, unless it has ended. dead: the rank of the job that has died, if that is the reason. telling:
        whether to send it to the other nodes."""
        if dead is not None:
            self._channel.wire.dead.add(dead)
        if self.ended is not None or self.is_shut:
            return
        self._end(kind(text, rank=rank, missing=tuple(missing) or None), kind, dead=dead, telling=telling)

    def _end(
        self, error: ShmcollError, kind: type[ShmcollError], *, dead: int | None = None, telling: bool = True
    ) -> None:
        """End the group with the error that this rank raises. kind: that of the error on other ranks."""
        inner, messages = self._inner._dispatcher, self._messages
        if kind is CollectiveTimeout and not inner.group.has_ended():
            self._where = self._where_ranks_are()
        if kind is CollectiveTimeout or dead is not None or error.missing:
            mpi_end.may_take(self.timeout)
        self.ended = error
        text, missing = str(error), list(error.missing or ())
        cause = _CAUSES.get(kind, records.ABORTED)
        taken = None if inner.group.has_ended() else keeping.take(inner.group.arena, cause, text, group=inner.group)
        for words in (self._words, messages.words):
            words[c.ACTIVE // WORD] = c.ENDED  # no native call begins any more
        facts = {_FACTS: [kind.__name__, error.rank, missing[:16], dead]}
        for group in (inner.group, messages.group):
            if not group.has_ended():
                records.end(group, self._inner.rank, cause, text, facts)
        if telling:
            message = {"group": self._channel.number, "kind": kind.__name__, "text": text, "rank": error.rank}
            self._tell(message | {"missing": missing[:64], "dead": dead})
        keeping.keep(taken)

    def heard(self, message: dict[str, Any]) -> None:
        """End the group for the reason that a rank of another node has sent."""
        kind, text = _KINDS.get(message["kind"], RankFailed), message["text"]
        late = self._late_here() if kind is CollectiveTimeout else ""
        self.end(
            kind,
            f"{text}. {late}" if late else text,
            rank=message["rank"],
            missing=message["missing"],
            dead=message["dead"],
            telling=False,
        )

    def from_messages(self, operation: str, error: ShmcollError) -> ShmcollError:
        """Return the error for a message within the node which has failed with `error`, and end the group."""
        failure = records.first_failure(self._messages.group)
        own = failure is None or (isinstance(error, CollectiveTimeout) and _FACTS not in failure.facts)
        if self.ended is None and not self.is_shut and own:
            local = self.topology.local
            found = type(error)(str(error), missing=[local[rank] for rank in error.missing or ()] or None)
            found.calls = error.calls and {local[rank]: call for rank, call in error.calls.items()}
            self._end(found, CollectiveTimeout if type(error) is CollectiveTimeout else RankFailed)
        elif self.ended is None:
            self.of_messages()
        try:
            self.raise_if_ended(operation)
        except ShmcollError as known:
            return known
        return error

    def of_messages(self) -> None:
        """Take the reason from the group of the node for messages, which has ended."""
        self._take_reason(self._messages.group)

    def of_node(self) -> None:
        """Take the reason from the group of the node, which has ended."""
        self._take_reason(self._inner._dispatcher.group)

    def _take_reason(self, group: "Group") -> None:
        failure = records.first_failure(group)
        if failure is None:
            self.end(RankFailed, f"the group of {self._here()} was ended without a reason")
            return
        if _FACTS in failure.facts:
            kind, rank, missing, dead = failure.facts[_FACTS]
            self.end(_KINDS[kind], failure.text, rank=rank, missing=missing, dead=dead, telling=False)
            return
        local = failure.facts.get(CULPRIT, group.ranks.index(failure.rank))
        culprit = self.topology.local[local]
        own = f"rank {group.name(local)} "
        who = self.topology.describe(culprit)
        text = f"{who} {failure.text.removeprefix(own)}" if failure.text.startswith(own) else failure.text
        of_the_living = failure.cause in (*_KIND_OF_CAUSE, *_OF_THE_LIVING)
        # A rank of which another one has found that it is gone may only have closed the group
        is_dead = not of_the_living and bool(records.how_ended(group.arena, group.ranks[local]))
        dead = self._channel.ranks[culprit] if is_dead else None
        if is_dead:
            how = records.how_failed(group.arena, group.ranks[local])
            text = f"{who} {how}" if how else text
            text += self._last_call(culprit)
        if text == failure.text and group is not self._messages.group:
            text = f"on {self._here()}, whose ranks are numbered there from 0: {text}"
        kind = _KIND_OF_CAUSE.get(failure.cause, RankFailed)
        self.end(kind, text, rank=culprit if kind is RankFailed else None, dead=dead)

    def died(self, world: int, text: str, *, telling: bool) -> None:
        """End the group because a rank of the job has died. It does nothing if that is not a member."""
        if world in self._channel.ranks:
            rank = self._channel.ranks.index(world)
            text = f"{self.topology.describe(rank)} {text}{self._last_call(rank)}"
            self.end(RankFailed, text, rank=rank, dead=world, telling=telling)

    def shut(self) -> None:
        self.is_shut = True

    def _tell(self, message: dict[str, Any]) -> None:
        local = set(self.topology.local)
        self._channel.wire.tell([rank for i, rank in enumerate(self._channel.ranks) if i not in local], message)

    def _where_ranks_are(self) -> str:
        """Return the table of the ranks of this node, while they still wait."""
        from shmcoll.diagnostics.hang_report import STACKS_PATIENCE
        from shmcoll.diagnostics.nodes_status import inquest

        arena = self._inner._dispatcher.group.arena
        with ignored(Exception), alone(arena, 2 * STACKS_PATIENCE):  # an error here must not hide that one
            if not self._inner._dispatcher.group.has_ended():  # another rank may have made the table meanwhile
                return inquest(arena, STACKS_PATIENCE)
        return ""

    def _last_call(self, rank: int) -> str:
        """Return what a rank has called last, to follow how it ended; empty for a rank of another node."""
        node, index = self.topology.places[rank]
        call = last_call(self._inner._dispatcher.group, index) if node == self.topology.node else None
        if call is None:
            return ""
        return (
            f"; its last call, {call_over_nodes(call)}, had returned"
            if call.ended
            else f"; it was in {call_over_nodes(call)}"
        )

    def _late_here(self) -> str:
        """Return which ranks of this node have not come as far as others of it; empty if all have."""
        group, local = self._inner._dispatcher.group, self.topology.local
        calls = [last_call(group, index) for index in range(len(local))]
        furthest = max(calls, key=lambda call: call.number if call else 0)
        if furthest is None:
            return ""
        late = [
            f"{self.topology.describe(rank)} has not arrived at {call_over_nodes(furthest)}{self._last_call(rank)}"
            for rank, call in zip(local, calls, strict=True)
            if call is None or call.number < furthest.number
        ]
        return "; ".join(late)

    def _here(self) -> str:
        return self.topology.describe_node(self.topology.node)


class Checking:
    """`with failures.checking(op) as check`: what the checks of arguments name in their messages."""

    def __init__(self, operation: str, name: RankName, size: int):
        self._check, self._size = (operation, name), size

    def __enter__(self) -> tuple[str, int]:
        return self._check

    def __exit__(self, _type: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        suggest(error, self._check[0], traceback, self._size)
