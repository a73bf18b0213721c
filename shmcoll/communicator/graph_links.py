"""The edges of a graph as its ranks name them, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from shmcoll.calls import arguments as given
from shmcoll.engine.system.text import shown


class Links(NamedTuple):
    """The ends of a rank's edges: the other ranks, and the number of each edge among those between the same ranks."""

    ranks: list[int | None]
    edges: list[int]


def as_links(ranks: Any, name: str, size: int, operation: str, rank: int) -> Links:
    """Check the ranks that a user has named, and return them as edges. Equal edges are numbered in the order of their
    names."""
    if isinstance(ranks, str) or not isinstance(ranks, Iterable):
        raise TypeError(
            f"{operation} on rank {rank}: {name} must be a sequence of ranks, in which None is nobody; "
            f"got {shown(ranks)}"
        )
    listed = [None if one is None else given.as_peer(one, name, size, operation, rank) for one in ranks]
    return Links(listed, [listed[:i].count(one) for i, one in enumerate(listed)])


def disagreement(told: list[tuple[Links, Links]], names: Callable[[Iterable[int]], str]) -> str:
    """Return a text about the first edge that has one end only. If each edge has two, return ''."""
    sent, expected = set(), set()
    for rank, (incoming, outgoing) in enumerate(told):
        sent |= {(rank, to, edge) for to, edge in zip(*outgoing, strict=True) if to is not None}
        expected |= {(by, rank, edge) for by, edge in zip(*incoming, strict=True) if by is not None}
    if sent == expected:
        return ""
    source, destination, _ = min(sent ^ expected)
    first, second = (sum(edge[:2] == (source, destination) for edge in edges) for edges in (sent, expected))
    one, other = names([source]), names([destination])
    return (
        f"{_naming(one, other, 'a destination', first)}, but {_naming(other, one, 'a source', second)}; "
        f"both ends name an edge"
    )


def _naming(who: str, whom: str, role: str, often: int) -> str:
    if not often:
        return f"{who} does not name {whom} as {role}"
    return f"{who} names {whom} as {role} {'once' if often == 1 else f'{often} times'}"
