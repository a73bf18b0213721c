"""The only loop that waits for MPI, and what it watches while it waits.

A rank that waits for messages of other nodes tests its requests, which is also what moves them. Between two tests it
looks at five things, so that it never waits forever:

    the control channel     a rank of another node has ended a group, or has found a rank dead
    the node's group        a rank of this node has ended the group
    the lives of its node   every 20 ms: a rank of this node has died, which the other nodes cannot see
    the messages            every 20 ms: those that have come are taken in, because MPI may keep back what the same rank
                            has sent behind them (`drain`)
    the clock               the limit of one wait has passed: `CollectiveTimeout` names the nodes that are missing

It tests without a pause at first, then yields its core between two tests, then sleeps. With more ranks than cores it
yields from the start. It sleeps only when the bytes would have come, had they been on their way. It looks at these
things after LOOKS tests, and whenever it sleeps. Signal handlers run between two tests.

Ranks that wait in shared memory do not look at the control channel. So a rank that leads the ranks of its node in a
group has a thread that does, every 50 ms, and ends the group on the node.

A leader in the opening of a short call tests its requests in native code, and calls `look_around` from there.

Requests of a wait that has failed are kept (`_abandoned`), because MPI may still write their memory, and withdrawn at
the end.
"""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shmcoll.diagnostics.describe_timeout import timed_out, with_advice
from shmcoll.engine.memory import records
from shmcoll.errors import CollectiveTimeout, RankFailed
from shmcoll.nodes.mpi import mpi_end, waiting
from shmcoll.runtime import helpers

if TYPE_CHECKING:
    from shmcoll.nodes.mpi.failures import Failures
    from shmcoll.nodes.mpi.wire import Pending, Wire
    from shmcoll.runtime.local_rank import LocalRank

NOT_MADE = "not made"  # the kind of a control message


class Progress:
    """Waits for what this process sends and receives. crowded: whether this node has more ranks than cores."""

    def __init__(self, wire: "Wire", local_rank: "LocalRank", world: tuple[int, ...], crowded: bool):
        self.wire = wire
        wire.when_stuck = self._end_all
        self._local_rank = local_rank
        self._world = world  # the ranks of the job on this node, by their rank in the arena
        self.crowded = crowded
        self.polls = 0 if crowded else waiting.POLLS
        self._abandoned: list[Any] = []
        self._lock = threading.Lock()  # of the control channel
        self._is_over = threading.Event()
        self._watcher: threading.Thread | None = None
        self._not_made: dict[int, dict[str, Any]] = {}  # what `not_made` has told of groups, by number
        self.groups: weakref.WeakValueDictionary[int, Failures] = weakref.WeakValueDictionary()
        self.far_messages: weakref.WeakSet[Any] = weakref.WeakSet()  # the `FarMessages` of each of these groups
        self._drained_at = 0.0

    def add(self, number: int, failures: "Failures") -> None:
        """Watch over a new group, which another node may have failed to make."""
        self.groups[number] = failures
        if number in self._not_made:
            failures.heard(self._not_made[number])

    def world_rank(self, local: int) -> int:
        """Return the number in the job of a rank of this node, by its number in the arena."""
        return self._world[local]

    def watch(self) -> None:
        """Look at the control channel in a thread from now on."""
        if self._watcher is not None:
            return
        self._watcher = threading.Thread(target=self._watch, name="shmcoll-nodes", daemon=True)
        self._watcher.start()

    @helpers.counted()
    def _watch(self) -> None:
        while not self._is_over.wait(waiting.CONTROL):
            self.look()

    def wait(self, failures: "Failures", pending: "Pending", operation: str, timeout: float) -> None:
        """Wait until all requests are complete. Raises why the group has ended, if it does."""
        try:
            self._wait(failures, pending, Wait(operation, timeout, pending.missing, pending.bytes))
        except BaseException:
            self.abandon(pending.begun)
            raise

    def _wait(self, failures: "Failures", pending: "Pending", wait: "Wait") -> None:
        wire, requests, turn = self.wire, pending.requests, 0
        tests, polls = wire.tests, self.polls
        while True:
            try:
                while not tests(requests):
                    turn += 1
                    if wait.sleeps or turn % waiting.LOOKS == 0:
                        break
                    if turn > polls:
                        os.sched_yield()
                else:
                    return
            except wire.mpi.Exception as error:
                self.lost(failures, pending.missing(), str(error))
                failures.raise_if_ended(wait.operation)
            self.look_around(failures, wait)

    def look_around(self, failures: "Failures", wait: "Wait") -> None:
        """Raise if the group has ended, or if this wait ends it. Then sleep if it has taken long."""
        self.look()
        failures.raise_if_ended(wait.operation)
        now = time.monotonic()
        wait.begun = wait.begun or now
        if now >= wait.lives_at:
            wait.lives_at = now + waiting.LIVES
            self.look_at_lives(failures, wait.missing(), now)
        if now > wait.begun:
            self.drain()
        if now - wait.begun > wait.timeout:
            self._timed_out(failures, wait.missing(), wait.timeout)
        failures.raise_if_ended(wait.operation)
        wait.sleeps = now - wait.begun > wait.awake
        if wait.sleeps:
            time.sleep(waiting.LONGEST_NAP)

    def drain(self) -> None:
        """Take in the messages that have come for any group, now and then. MPICH's network over TCP keeps 64 messages
        of a rank that nobody has asked for; all that the rank sends then waits behind them."""
        now = time.monotonic()
        if now > self._drained_at + waiting.DRAINS:
            self._drained_at = now
            for messages in list(self.far_messages):
                messages.drain()

    def abandon(self, requests: Sequence[tuple[Any, bool]], memory: Any = None) -> None:
        """Keep requests that nobody waits for any more, each with whether it receives, and the memory that MPI may
        still write, until the end."""
        self._abandoned.append((requests, memory))

    def look(self) -> None:
        """Handle the control messages that have come."""
        if not self._lock.acquire(blocking=False):
            return  # another thread does it
        try:
            while (message := self.wire.heard()) is not None:
                self._handle(message)
            for world in self.wire.found_dead():
                self.rank_died(world, "died: its process has ended")
        finally:
            self._lock.release()

    def rank_died(self, world: int, text: str) -> None:
        """End all groups of a rank of the job, because it has died."""
        for failures in list(self.groups.values()):
            failures.died(world, text, telling=True)

    def leave(self) -> None:
        """Tell the other nodes that this rank leaves. Then stay in MPI until all others have told the same, but not
        long: their sends to this process could wait forever if it ended meanwhile."""
        here = set(self._world)
        others = {rank for rank in range(self.wire.size) if rank not in here}
        for _ in range(waiting.LAST_LOOKS):  # what they have told may still be in a socket
            self.look()
        self.wire.tell(sorted(others), {"group": 0, "kind": "left", "text": "", "dead": self.wire.rank})
        end = time.monotonic() + waiting.LEAVING
        while not self.wire.is_stuck and time.monotonic() < end:
            if self.wire.has_sent() and others <= self.wire.dead | self.wire.left_at.keys():
                return
            self.look()
            time.sleep(1e-3)

    def close(self) -> None:
        """Withdraw what is left, before MPI ends. A send is not cancelled: MPI 4 has deprecated that, and MPICH
        crashes over UCX."""
        self._is_over.set()
        if self.wire.is_stuck:
            return
        if self._watcher is not None:
            self._watcher.join()
        for requests, _memory in self._abandoned:
            for request, receives in requests:
                with contextlib.suppress(self.wire.mpi.Exception):
                    if request != self.wire.mpi.REQUEST_NULL:
                        if receives:
                            request.Cancel()
                        request.Free()
        self.wire.close()

    def _end_all(self) -> None:
        """End all groups, because no call of MPI returns any more."""
        mpi_end.may_not_begin()
        name = self.wire.rank
        text = (
            f"MPI on rank {name} does not return from sending to a rank that cannot be reached; look whether it lives"
        )
        for failures in list(self.groups.values()):
            failures.end(RankFailed, text, telling=False)

    def _handle(self, message: dict[str, Any]) -> None:
        if message["kind"] == "left":
            self.wire.left_at[message["dead"]] = time.monotonic()
            return
        if message["kind"] == NOT_MADE:  # kept first: this rank may be about to make the group
            message["kind"] = RankFailed.__name__
            self._not_made[message["group"]] = message
        own = self.groups.get(message["group"])
        if message["dead"] is not None:
            for failures in list(self.groups.values()):
                if failures is not own:
                    failures.died(message["dead"], "has failed", telling=False)
        if own is not None:
            own.heard(message)

    def look_at_lives(self, failures: "Failures", awaited: list[int], now: float) -> None:
        """End the groups of a rank of this node that has died, and this group if an awaited rank has left."""
        arena = self._local_rank.arena
        for local, world in enumerate(self._world):
            if local != self._local_rank.rank:
                failure = records.how_failed(arena, local)
                if failure:
                    self.rank_died(world, failure)
        for rank in awaited if self.wire.left_at else ():
            left = self.wire.left_at.get(failures.world(rank))
            if left is not None and now - left > waiting.AFTER_LEAVING:
                text = "left the job without taking part: its program has ended. Every rank must make this call"
                failures.died(failures.world(rank), text, telling=True)

    def _timed_out(self, failures: "Failures", missing: list[int], timeout: float) -> None:
        topology = failures.topology
        nodes = sorted({topology.places[rank][0] for rank in missing})
        who = "; ".join(topology.describe_node(node) for node in nodes)
        text = timed_out(topology.describe(topology.rank), timeout, f"no answer from {who}")
        text = with_advice(text, "; else look whether the node and its link are up")
        failures.end(CollectiveTimeout, text, missing=missing)

    def lost(self, failures: "Failures", missing: list[int], error: str) -> None:
        """End the group because MPI reports an error, which it does for a rank that has died, if it goes on at all."""
        who = ", ".join(failures.topology.describe(rank) for rank in missing) or "a peer"
        culprit = missing[0] if len(missing) == 1 else None
        failures.end(RankFailed, f"MPI reports an error with {who}: {error}", rank=culprit, missing=missing)


def not_made(number: int, text: str, rank: int) -> dict[str, Any]:
    """Return the control message that a rank of a new group has left the call that makes it."""
    return {"group": number, "kind": NOT_MADE, "text": text, "rank": rank, "missing": [], "dead": None}


class Wait:
    """One wait for MPI. missing: returns the ranks from which something is still to come. length: bytes that go to and
    fro."""

    def __init__(self, operation: str, timeout: float, missing: Callable[[], list[int]], length: int):
        self.operation, self.timeout, self.missing = operation, timeout, missing
        self.awake = waiting.AWAKE + length / waiting.SLOWEST
        self.begun = self.lives_at = 0.0
        self.sleeps = False
