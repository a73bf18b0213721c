"""Where the ranks of a job over several nodes are, as far as they can be seen from one machine.

Each node has an arena. Those of nodes that are simulated on this machine, or are containers of it, can all be seen. The
facts in each arena (`engine/memory/node_words.py`) say which job it belongs to, and how many ranks of which other nodes
there are. All numbers of ranks here are those of the job.

A rank is in a call of a group over nodes, or in one within its node. The parts of a call over nodes are calls within
the node, of groups that only algorithms use; these are not shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shmcoll.diagnostics.describe_call import call_over_nodes, operation_over_nodes
from shmcoll.diagnostics.flight_log import FlightRecord, flights
from shmcoll.diagnostics.hang_report import PATIENCE, stacks_of, table, verdict
from shmcoll.diagnostics.rank_status import (
    INSIDE,
    OUTSIDE,
    WAITING,
    RankStatus,
    open_groups,
    standing,
    waiting_message,
    who_blocks,
)
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.memory import node_words
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group, names
from shmcoll.engine.memory.node_words import NodeFacts, NodesCall

_WORLD = 1  # the number of the group of all ranks
_SHOWN = 8  # at most so many nodes that cannot be seen, by name

Which = tuple[int, int]  # a group over nodes: its number, and its first rank


@dataclass(frozen=True)
class ObservedNode:
    """A node that can be seen. numbers: its ranks, by their rank in the arena."""

    arena: Arena
    facts: NodeFacts
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class _Member:
    """A rank of a group over nodes. part: the group of its node whose calls are parts of the algorithms. index: its
    rank there."""

    rank: int
    part: Group
    index: int
    call: NodesCall | None


def observed(arena: Arena) -> ObservedNode | None:
    """Return the node of an arena; None if its job has one node, or if what the arena says makes no sense."""
    facts = node_words.read_facts(arena)
    numbers = node_words.read_numbers(arena, facts) if facts else None
    return ObservedNode(arena, facts, numbers) if facts and numbers else None


def fits(node: ObservedNode, others: Sequence[ObservedNode]) -> bool:
    """Return whether a node can be one of the job that others belong to."""
    facts = node.facts
    return all(
        (facts.job, facts.nodes, facts.ranks) == (one.facts.job, one.facts.nodes, one.facts.ranks)
        and facts.node != one.facts.node
        and not set(node.numbers) & set(one.numbers)
        for one in others
    )


def groups_within(node: ObservedNode) -> list[Group]:
    """Return the groups within a node that a program has made, with the numbers of the job; its `comm.node` first."""
    found = [group for group in open_groups(node.arena) if node_words.group_of(group) is None]
    return [replace(group, ranks=tuple(node.numbers[rank] for rank in group.ranks)) for group in found]


def standings(nodes: Sequence[ObservedNode]) -> list[RankStatus]:
    """Return the status of each rank that can be seen."""
    groups = _groups_over(nodes)
    found = []
    for node in nodes:
        within = groups_within(node)
        for local, rank in enumerate(node.numbers):
            base = replace(standing(node.arena, local, within, rank), node=node.facts.name)
            mine = [(which, members) for which, members in groups.items() if rank in (one.rank for one in members)]
            found.append(_standing(base, mine, node.facts.ranks))
    by_rank = {s.rank: s for s in found}
    return [_without_leaders(by_rank[rank], by_rank) for rank in sorted(by_rank)]


def unseen(nodes: Sequence[ObservedNode]) -> list[tuple[str, int]]:
    """Return the nodes that cannot be seen, with the numbers of their ranks. The last one stands for all whose names
    are not known here, if there are any, and has no name."""
    facts, seen = nodes[0].facts, {node.facts.node for node in nodes}
    named = list(enumerate(zip(facts.names, facts.counts, strict=True)))
    found = [one for number, one in named if number not in seen]
    known = sum(len(node.numbers) for node in nodes) + sum(count for _, count in found)
    return found + ([("", facts.ranks - known)] if known < facts.ranks else [])


def unseen_in_words(nodes: Sequence[ObservedNode]) -> str:
    """Return which ranks cannot be seen: 'node b (2 ranks)'; empty if all can."""
    found = [(name, count) for name, count in unseen(nodes) if name]
    told = [f"node {name} ({_ranks(count)})" for name, count in found[:_SHOWN]]
    nodes_left = nodes[0].facts.nodes - len(nodes) - len(told)
    if nodes_left > 0:
        ranks_left = sum(count for _, count in unseen(nodes)) - sum(count for _, count in found[:_SHOWN])
        told.append(f"{nodes_left} more {'node' if nodes_left == 1 else 'nodes'} ({_ranks(ranks_left)})")
    return ", ".join(told)


def verdict_over_nodes(nodes: Sequence[ObservedNode], found: list[RankStatus], patience: float = PATIENCE) -> str:
    """Return which ranks keep others waiting, and what cannot be seen."""
    hidden = unseen_in_words(nodes)
    told = verdict(found, patience)
    stuck = [s for s in found if not s.blames and s.state == INSIDE and s.since >= patience and s.node]
    if stuck and not any(s.blames and s.since >= patience for s in found):
        longest = max(stuck, key=lambda s: s.since)
        told = (
            f"{names(s.rank for s in stuck).capitalize()} {'has' if len(stuck) == 1 else 'have'} been in "
            f"{longest.operation} for {longest.since:.1f} s, and every rank that can be seen has arrived."
        )
    return f"{told} Not seen from this machine: {hidden}." if hidden else told


def inquest(arena: Arena, limit: float) -> str:
    """Return where the ranks of one node are, with their stacks, and which of them keep others waiting; empty if the
    arena does not say which node it is. limit: seconds for the stacks."""
    node = observed(arena)
    if node is None:
        return ""
    found = standings([node])
    return f"{table(found, stacks_of(found, limit))}\n{verdict_over_nodes([node], found, 0)}"


def last_operation(node: ObservedNode, rank: int) -> str:
    """Return the last operation of a rank of a node whose process has ended, as text; empty if it is not known."""
    calls = [one.call for members in _groups_over([node]).values() for one in members if one.rank == rank and one.call]
    call = max(calls, key=lambda one: (one.ended == 0, one.began), default=None)
    if call is None:
        return ""
    return (
        f"its last call, {call_over_nodes(call)}, had returned" if call.ended else f"it was in {call_over_nodes(call)}"
    )


def calls_over_nodes(nodes: Sequence[ObservedNode]) -> dict[int, int]:
    """Return how many collectives between nodes each rank has begun, in all its open groups."""
    found: dict[int, int] = {}
    for members in _groups_over(nodes).values():
        for one in members:
            found[one.rank] = found.get(one.rank, 0) + (one.call.number if one.call else 0)
    return found


def has_ended_a_group(node: ObservedNode, rank: int) -> bool:
    """Return whether a group over nodes has ended that a rank of the arena belongs to."""
    groups = (group for group in open_groups(node.arena) if node_words.group_of(group) is not None)
    return any(group.has_ended() for group in groups if rank in group.ranks)


def _groups_over(nodes: Sequence[ObservedNode]) -> dict[Which, list[_Member]]:
    """Return the groups over nodes, with those of their members that can be seen."""
    found: dict[Which, list[_Member]] = {}
    for node in nodes:
        for group in open_groups(node.arena):
            which = node_words.group_of(group)
            if which is not None:
                part = replace(group, ranks=tuple(node.numbers[rank] for rank in group.ranks))
                found.setdefault(which, []).extend(
                    _Member(rank, part, index, node_words.last_call(part, index))
                    for index, rank in enumerate(part.ranks)
                )
    return found


def _standing(base: RankStatus, groups: list[tuple[Which, list[_Member]]], ranks: int) -> RankStatus:
    """Return the status of a rank. base: where it is within its node. groups: its groups over nodes. ranks: those of
    the job."""
    within_ended = 0 if base.flight is None else max(base.flight.started, base.flight.woken)
    within = base.message, base.flight is not None and base.flight.flying, within_ended
    latest: tuple[bool, int, Which, _Member, list[_Member]] | None = None
    for which, members in groups:
        me = next(one for one in members if one.rank == base.rank)
        is_open = not me.part.has_ended()
        group = Group(me.part.arena, me.part.offset, tuple(sorted(one.rank for one in members)))
        base_there = replace(base, group=group, is_world=which[0] == _WORLD)
        if is_open and (waits := waiting_message(me.part, me.index, group.ranks, range(ranks))) and waits.since > 0:
            return waits.shown_in(base_there)
        if me.call is not None:
            one = (is_open and not me.call.ended, max(me.call.began, me.call.ended), which, me, members)
            if latest is None or one[:2] > latest[:2]:
                latest = one
    if latest is None or (not latest[0] and (within[0] or within[1:] > latest[:2])):
        return base
    is_in_it, _, which, me, members = latest
    return _in_call(base, is_in_it, which, me, members)


def _in_call(base: RankStatus, is_in_it: bool, which: Which, me: _Member, members: list[_Member]) -> RankStatus:
    call = me.call
    assert call is not None
    state = base.state if base.state not in (WAITING, INSIDE, OUTSIDE) else ""
    flight = FlightRecord(
        0 if call.operation == node_words.SUBGROUP else call.number,
        0,
        (0, 0),
        0,
        call.began,
        call.ended,
        c.OK if call.ended else layout.RUNNING,
    )
    group = Group(me.part.arena, me.part.offset, tuple(sorted(one.rank for one in members)))
    base = replace(base, group=group, is_world=which[0] == _WORLD, over_nodes=True)
    base = replace(base, message=0, sends=False, blames=(), arrived=False)
    found = replace(
        base, flight=flight, call=operation_over_nodes(call), state=state or (INSIDE if is_in_it else OUTSIDE)
    )
    if not is_in_it:
        return found
    blames = tuple(sorted(one.rank for one in members if one.call is None or one.call.number < call.number))
    arrived = False
    if not blames:
        parts = flights(me.part, me.index)[-1:]
        if parts and parts[0].flying:
            blames, _ = who_blocks(me.part, me.index, parts[0].sequence)
            arrived = True
    return replace(found, blames=blames, arrived=arrived, state=state or (WAITING if blames else INSIDE))


def _without_leaders(status: RankStatus, by_rank: dict[int, RankStatus]) -> RankStatus:
    """Return a status that blames no rank which is in the same call and goes on: a leader waits for other nodes."""
    if status.state == WAITING and status.arrived and not status.message and status.over_nodes:
        blames = tuple(rank for rank in status.blames if by_rank[rank].state != INSIDE)
        return replace(status, blames=blames, state=WAITING if blames else INSIDE)
    return status


def _ranks(count: int) -> str:
    return f"{count} rank{'s' * (count != 1)}"
