"""scan and exscan over nodes.

Short: the opening gives all ranks the arrays of all, and each rank combines those before it in their order. Longer,
with ranks in the order of the nodes: a scan in each node, an exchange of the totals of all nodes in the opening or, for
long arrays, of the leaders, and each rank combines what is before its node with what the scan in its node gave.
Otherwise every rank gets the arrays of all ranks, and combines those before it in their order.
"""

from typing import TYPE_CHECKING

import numpy as np

from shmcoll.engine import context as c
from shmcoll.nodes.agreement import NOTHING
from shmcoll.nodes.moves import array_facts
from shmcoll.nodes.native.layout import MOST_PARTIAL
from shmcoll.nodes.operators import Partial, partial_of
from shmcoll.nodes.reduction import aligned, fold_in_rank_order
from shmcoll.nodes.wire import Pending, as_bytes

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_OK = int(c.OK)


def scan(
    d: "NodesDispatcher",
    name: str,
    operand: np.ndarray,
    target: np.ndarray | None,
    kind: int,
    _0: int,
    identity: int,
    _1: int,
    kernel: int,
    ordered: int,
    _2: int,
) -> int:
    return _running(d, name, operand, target, partial_of(d, operand.dtype, kind, identity, kernel, ordered))


exscan = scan  # the name says which


def _running(d: "NodesDispatcher", name: str, operand: np.ndarray, target: np.ndarray | None, partial: Partial) -> int:
    facts, wide = (name, *array_facts(operand), *partial.facts), partial.widened(operand)
    last = d.rank + (name == "scan")
    if d.agreement.carries(wide.nbytes):
        rows = d.agreement.open_rows(facts, as_bytes(wide), native=partial.native(operand, 0))
        first, *others = (aligned(row, wide.dtype) for row in rows[: max(last, 1)])
        total = partial.fold([partial.started(first), *others])
    elif not d.topology.in_rank_order:
        d.agreement.open_rows(facts, NOTHING)
        total = fold_in_rank_order(d, wide, partial, range(last)) if last else gather_only(d, wide, partial)
    else:
        total = _by_nodes(d, name, facts, wide, partial)
    if target is not None:
        partial.finish(total, target)
    return _OK


def gather_only(d: "NodesDispatcher", wide: np.ndarray, partial: Partial) -> np.ndarray:
    """Take part without a result: the first rank of an exscan has none."""
    return fold_in_rank_order(d, wide, partial, [d.rank])


def _by_nodes(
    d: "NodesDispatcher", name: str, facts: tuple[object, ...], wide: np.ndarray, partial: Partial
) -> np.ndarray:
    topology = d.topology
    here, is_short = topology.node, wide.nbytes <= MOST_PARTIAL

    def total_of_node() -> np.ndarray:
        total = np.empty_like(wide) if d.is_leader else None
        partial.in_node("reduce", wide, total)
        return np.empty(0, wide.dtype) if total is None else total

    def combine(offers: list[np.ndarray], told: np.ndarray) -> None:
        if here:
            told[:] = as_bytes(partial.fold([aligned(one, wide.dtype) for one in offers[:here]]))

    if is_short:
        told = d.agreement.open(facts, wide.nbytes, lambda: as_bytes(total_of_node()), combine)
        before = aligned(told, wide.dtype)
    else:
        d.agreement.open_rows(facts, NOTHING)
        before = _totals_before(d, total_of_node(), wide, partial)
    own = np.empty_like(wide) if name == "scan" or topology.index else None
    partial.in_node(name, wide, own)
    if own is None:
        return before
    if here:
        partial.combine(before, own, own)
    return own


def _totals_before(d: "NodesDispatcher", total: np.ndarray, wide: np.ndarray, partial: Partial) -> np.ndarray:
    """Return the combined totals of the nodes before this one: leaders send theirs to all leaders behind them."""
    nodes, here = d.topology.nodes, d.topology.node
    before = np.empty_like(wide)
    if d.is_leader:
        pending, parts = Pending(d.channel), [np.empty_like(wide) for _ in nodes[:here]]
        for part, ranks in zip(parts, nodes, strict=False):
            pending.recv(as_bytes(part), ranks[0])
        for ranks in nodes[here + 1 :]:
            pending.send(as_bytes(total), ranks[0])
        d.wait(pending)
        if parts:
            before = partial.fold(parts)
    d.inner.broadcast(as_bytes(before), 0)
    return before
