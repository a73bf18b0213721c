"""Which ranks are on which node. Everything goes through these tables: ranks may be placed in any order, and nodes may
have any number of ranks.

A rank is known by its number in the group, or by its node and its index there, which is its rank in the communicator of
the node.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from shmcoll.engine.memory.group import RankName, names


@dataclass(frozen=True)
class Topology:
    """The nodes of a group, as one of its ranks sees them.

    nodes: the ranks of each node, by index. names: what messages call the nodes. rank: this rank. world: the number in
    the job of each rank; empty if that is the same.
    """

    nodes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    rank: int
    world: tuple[int, ...] = ()

    @cached_property
    def size(self) -> int:
        return sum(map(len, self.nodes))

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Node and index of each rank."""
        found = {rank: (node, i) for node, ranks in enumerate(self.nodes) for i, rank in enumerate(ranks)}
        return tuple(found[rank] for rank in range(self.size))

    @cached_property
    def node(self) -> int:
        """The number of this rank's node."""
        return self.places[self.rank][0]

    @cached_property
    def index(self) -> int:
        """This rank's index in its node."""
        return self.places[self.rank][1]

    @cached_property
    def local(self) -> tuple[int, ...]:
        """The ranks of this rank's node, by index."""
        return self.nodes[self.node]

    @cached_property
    def in_rank_order(self) -> bool:
        """Whether the ranks of the first node come first, and so on: the nodes one after the other give all ranks."""
        return tuple(rank for ranks in self.nodes for rank in ranks) == tuple(range(self.size))

    @cached_property
    def smallest(self) -> int:
        """The number of ranks of the smallest node."""
        return min(map(len, self.nodes))

    def name(self, rank: int) -> RankName:
        """Return the name of a rank, for messages."""
        return RankName(rank, self.world[rank] if self.world else rank)

    def describe(self, rank: int) -> str:
        """Return a rank and its node, for messages: 'rank 1 (node b)', or 'rank 1 (world rank 3, node b)'."""
        name, node = self.name(rank), self.names[self.places[rank][0]]
        return f"rank {rank} ({'' if name == name.world else f'world rank {name.world}, '}node {node})"

    def describe_node(self, node: int) -> str:
        """Return a node and its ranks, for messages."""
        return f"node {self.names[node]} ({names(map(self.name, self.nodes[node]))})"

    def among(self, ranks: Sequence[int], rank: int) -> "Topology":
        """Return the topology of a group of some of these ranks, numbered in the order given, as `rank` of them sees
        it."""
        numbers = {old: new for new, old in enumerate(ranks)}
        found = [
            (tuple(numbers[one] for one in members if one in numbers), name)
            for members, name in zip(self.nodes, self.names, strict=True)
        ]
        found = sorted((members, name) for members, name in found if members)
        world = tuple(self.name(old).world for old in ranks)
        return Topology(tuple(members for members, _ in found), tuple(name for _, name in found), rank, world)


def group_by_key(keys: Sequence[Hashable]) -> tuple[tuple[int, ...], ...]:
    """Return the ranks of each node, from the key of each rank's node. Nodes come in the order of their lowest
    ranks."""
    found: dict[Hashable, list[int]] = {}
    for rank, key in enumerate(keys):
        found.setdefault(key, []).append(rank)
    return tuple(map(tuple, found.values()))


def node_names(nodes: Sequence[Sequence[int]], hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the name of each node: its host's, with a number behind it if several nodes have the same host."""
    names = [hosts[ranks[0]] for ranks in nodes]
    return tuple(name if names.count(name) == 1 else f"{name}#{names[:i].count(name)}" for i, name in enumerate(names))
