"""Where every rank of a job of one machine is; `nodes_status.py` has the same for a job over several nodes.

It is read from the arena and from /proc, by a rank, the launcher, or a process outside of the job (`observer.py`). The
job goes on meanwhile, so the facts about different ranks may be some microseconds apart.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shmcoll.collectives import record_of
from shmcoll.diagnostics.describe_call import message_in_words
from shmcoll.diagnostics.describe_message import what_waits
from shmcoll.diagnostics.flight_log import FlightRecord, flights, last_call
from shmcoll.diagnostics.wait_graph import awaited_by, not_arrived, who_stopped
from shmcoll.engine import layout
from shmcoll.engine.collective import ANY_SOURCE, PEER
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.slot_tables import tables
from shmcoll.engine.messages.buffers import SeenMessages
from shmcoll.engine.system.handlers import ignored
from shmcoll.engine.system.processes import has_ended
from shmcoll.engine.system.text import read_text
from shmcoll.errors import ArenaError

ENDED, ABSENT, GONE, STOPPED, WAITING, INSIDE, OUTSIDE, UNSEEN = (
    "ended", "not joined", "gone", "stopped", "waits", "in it", "outside", "not seen",
)  # fmt: skip


@dataclass(frozen=True)
class RankStatus:
    """One rank of the world. flight: its last operation, of all its groups, in `group`; None if it has called nothing,
    or is in a message. message: the time since which the message has waited (CLOCK_MONOTONIC, ns); 0 if it is in no
    message.

    blames: the ranks of the world that keep it from going on. arrived: whether these have arrived at the operation.
    sends: whether the message is one that it sends. start: the start time of its process, 0 if it is not known. node:
    the name of its node, if the job has several. over_nodes: whether the operation is one of a group over nodes.
    is_world: whether that is the group of all ranks. mail: the messages that wait for it while it receives another one,
    in words.
    """

    rank: int
    pid: int
    state: str
    group: Group | None = None
    flight: FlightRecord | None = None
    call: str = ""
    blames: tuple[int, ...] = ()
    arrived: bool = False
    message: int = 0
    sends: bool = False
    start: int = 0
    node: str = ""
    over_nodes: bool = False
    is_world: bool = False
    mail: str = ""

    @property
    def label(self) -> str:
        """Its number, for messages, with its node if there are several."""
        return f"{self.rank} (node {self.node})" if self.node else str(self.rank)

    @property
    def operation(self) -> str:
        """Its last operation: 'barrier() #4', 'recv(source=1, tag=5)'."""
        return f"{self.call} #{self.flight.sequence}" if self.flight and self.flight.sequence else self.call

    @property
    def since(self) -> float:
        """Seconds since its last operation began, or since it ended."""
        if self.message:
            return max(time.monotonic_ns() - self.message, 0) / 1e9
        return self.flight.since if self.flight else 0.0

    @property
    def place(self) -> str:
        """Where it is: 'in barrier() #4', 'after barrier() #4 of ranks 0, 2', 'in recv(source=1, tag=5)'."""
        if self.group is None:
            return "has called nothing yet"
        world = self.is_world or (not self.node and self.group == Group.world(self.group.arena))
        where = "" if world else f" of {self.group.title}"
        if self.flight is None or self.flight.flying:
            return f"in {self.operation}{where}"
        return f"{'failed in' if self.flight.failed else 'after'} {self.operation}{where}"


def unseen(rank: int) -> RankStatus:
    """Return the status of a rank on a node that cannot be seen."""
    return RankStatus(rank, 0, UNSEEN)


def standings(arena: Arena) -> list[RankStatus]:
    """Return the status of every rank of the world."""
    groups = open_groups(arena)
    return [standing(arena, rank, groups) for rank in range(arena.ranks)]


def open_groups(arena: Arena) -> list[Group]:
    """Return the group of all ranks, and those in the directories of their leaders."""
    found = [Group.world(arena)]
    for leader in range(arena.ranks):
        read = (arena.read(table, slots * layout.SLOT_BYTES) for table, slots in tables(arena, leader))
        slots = memoryview(b"".join(read)).cast("q").tolist()
        for identity, offset in zip(slots[::2], slots[1::2], strict=True):
            if identity and 0 < offset <= arena.size - layout.group_bytes(1, 0):  # one without cells
                size = arena.load(offset + layout.SIZE)
                if 0 < size <= arena.ranks and offset + layout.group_bytes(size, 0) <= arena.size:
                    members = tuple(arena.load(offset + layout.MEMBERS + i * WORD) for i in range(size))
                    if all(0 <= member < arena.ranks for member in members):
                        found.append(Group(arena, offset, members))
    return found


def standing(arena: Arena, rank: int, groups: list[Group], number: int | None = None) -> RankStatus:
    """Return the status of a rank of the arena. number: its number in `groups` and in the status, if that is another
    one."""
    told = records.read(arena, rank, layout.BY_RANK)
    state = _life(told, records.read(arena, rank, layout.BY_LAUNCHER))
    rank = rank if number is None else number
    latest = _latest(rank, groups)
    outside = RankStatus(rank, told.pid, state or OUTSIDE, start=told.start)
    for group in groups:
        if rank in group.ranks and not group.has_ended():
            me = group.ranks.index(rank)
            if waiting := waiting_message(group, me, group.ranks):
                waits = waiting.shown_in(replace(outside, group=group))
                return waits if waits.sends else replace(waits, mail=_mail(group, me))
    if latest is None:
        return outside
    group, flight = latest
    me = group.ranks.index(rank)
    after = replace(outside, group=group, flight=flight, call=last_call(group, me, flight))
    if not flight.flying or group.has_ended():
        return after
    names, arrived = who_blocks(group, me, flight.sequence)
    return replace(after, state=state or (WAITING if names else INSIDE), blames=names, arrived=arrived)


def last_operation(arena: Arena, rank: int) -> str:
    """Return the last operation of a rank whose process has ended, as text; empty if it had not joined.

    Its own line in the program is lost. Ranks that have raised an error in the same operation have noted their lines.
    """
    if records.read(arena, rank, layout.BY_RANK).state == records.UNBORN:
        return ""
    groups = open_groups(arena)
    for group in groups:
        if rank in group.ranks and (waiting := waiting_message(group, group.ranks.index(rank), group.ranks)):
            return f"it was in {waiting.call}"
    latest = _latest(rank, groups)
    if latest is None:
        return "it had called nothing yet"
    group, flight = latest
    call = f"{last_call(group, group.ranks.index(rank), flight)} #{flight.sequence}"
    if not flight.flying:
        return f"its last call, {call}, had returned"
    sites = ((other, records.site(group, other, flight.sequence)) for other in range(group.size))
    called_at = next((f", which rank {group.ranks[other]} called{site}" for other, site in sites if site), "")
    return f"it was in {call}{called_at}"


def _latest(rank: int, groups: list[Group]) -> tuple[Group, FlightRecord] | None:
    """Return the last operation of a rank of the world, and its group."""
    found = [
        (group, flight)
        for group in groups
        if rank in group.ranks
        for flight in flights(group, group.ranks.index(rank))[-1:]
    ]
    return max(found, key=lambda one: _weight(one[1]), default=None)


class WaitingMessage(NamedTuple):
    """A send or recv that has slept. blames: the ranks that it waits for. since: CLOCK_MONOTONIC, ns."""

    call: str
    blames: tuple[int, ...]
    since: int
    sends: bool

    def shown_in(self, base: RankStatus) -> RankStatus:
        """Return the status of the rank that is in it. base: what else is known of that rank."""
        state = base.state if base.state not in (WAITING, INSIDE, OUTSIDE) else WAITING
        found = replace(base, flight=None, state=state, call=self.call, blames=self.blames, arrived=False)
        return replace(found, message=self.since, sends=self.sends)


def waiting_message(
    group: Group, rank: int, members: Sequence[int], named: Sequence[int] = ()
) -> WaitingMessage | None:
    """Return the message that a rank waits for in the mailbox of a group; None if it does not wait for one.

    members: the ranks for which it waits if it receives from ANY, among them itself. named: the ranks by the numbers
    that messages have for them, if these are not the ranks of the group.
    """
    words = (layout.MESSAGE, layout.MESSAGE_PEER, layout.MESSAGE_TAG, layout.MESSAGE_SINCE)
    operation, peer, tag, since = (group.arena.load(group.mailbox(rank) + word) for word in words)
    record, me, numbers = record_of(operation), group.ranks[rank], named or group.ranks
    if record is None or not record.form & PEER or not layout.ANY <= peer < len(numbers):
        return None
    blames = tuple(one for one in members if one != me) if peer == layout.ANY else (numbers[peer],)
    call = message_in_words(replace(group, ranks=tuple(numbers)), record.name, peer, tag)
    return WaitingMessage(call, blames, since, not record.form & ANY_SOURCE)


def _mail(group: Group, me: int) -> str:
    with ignored(ArenaError, OSError):  # of an arena that becomes shorter, or whose descriptor the program has closed
        return what_waits(group, range(group.size), SeenMessages(group, me))
    return ""


def _weight(flight: FlightRecord) -> tuple[bool, int]:
    return flight.flying, max(flight.started, flight.woken)


def _life(told: records.Record, launcher: records.Record) -> str:
    """Return a text about the rank's process; empty if it lives and runs."""
    if launcher.state == records.FAILED:
        return ENDED
    if told.state == records.UNBORN:
        return ABSENT
    if told.pid == 0 or told.state in (records.DEPARTED, records.FAILED):
        return ENDED
    if has_ended(told.pid, told.start):
        return GONE
    return STOPPED if process_state(told.pid) in ("T", "t") else ""


def process_state(pid: int) -> str:
    """Return the state of /proc/PID/stat: R, S, D, T, Z; empty if there is no such process."""
    try:
        return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def who_blocks(group: Group, rank: int, sequence: int) -> tuple[tuple[int, ...], bool]:
    """Return the ranks of the world that keep a rank of the group from going on, and whether they have arrived at the
    operation."""
    awaited = awaited_by(group, rank)
    if awaited is None:
        return (), False
    missing = not_arrived(group, rank, sequence)
    found = missing or who_stopped(group, rank, awaited)
    return tuple(group.ranks[one] for one in found), not missing
