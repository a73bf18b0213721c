"""all_reduce, reduce and reduce_scatter over nodes.

shortest     the opening gives all ranks the arrays of all, and each of them combines them
short        each node reduces to its leader, the leaders exchange the results of their nodes in the opening, and each
             of them combines all: in native code if that may combine them. Cost: R + O(S) + (N - 1) S g
all_reduce, reduce_scatter
             long: in native code (`native/rails.py`, `native/owners.py`), which makes such a call by itself once Python
             has made one of its form
reduce       long: rails, to the ranks of the root's node, which give their slices to the root
ordered      an operator that is not commutative, where ranks of a node are not neighbours: every rank gets the arrays
             of all ranks, and combines them in their order

N nodes, S bytes of an array, g for a reduced byte, R a reduce in a node; O(S) for an opening: see `agreement.py`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shmcoll.collectives.reduce_scatter import EVEN, LISTED
from shmcoll.engine import context as c
from shmcoll.nodes.agreement import NOTHING, Facts
from shmcoll.nodes.moves import array_facts
from shmcoll.nodes.native.layout import MOST_PARTIAL, MOST_SCATTERED
from shmcoll.nodes.operators import Partial, partial_of
from shmcoll.nodes.transport import at_address, gather_everywhere, table_at
from shmcoll.nodes.wire import Pending, as_bytes

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_OK = int(c.OK)
_IN_NODES = ("all_reduce", "reduce")  # first, where an opening carries them


def all_reduce(
    d: "NodesDispatcher",
    name: str,
    operand: np.ndarray,
    target: np.ndarray | None,
    kind: int,
    root: int,
    identity: int,
    _0: int,
    kernel: int,
    ordered: int,
    _1: int,
) -> int:
    return _to(d, name, operand, target, None, partial_of(d, operand.dtype, kind, identity, kernel, ordered))


def reduce(
    d: "NodesDispatcher",
    name: str,
    operand: np.ndarray,
    target: np.ndarray | None,
    kind: int,
    root: int,
    identity: int,
    _0: int,
    kernel: int,
    ordered: int,
    _1: int,
) -> int:
    return _to(d, name, operand, target, root, partial_of(d, operand.dtype, kind, identity, kernel, ordered))


def _to(
    d: "NodesDispatcher",
    name: str,
    operand: np.ndarray,
    target: np.ndarray | None,
    root: int | None,
    partial: Partial,
) -> int:
    """Reduce on all ranks, or on the root."""
    facts = (name, *array_facts(operand), *partial.facts, "" if root is None else f"root={root}")
    wide = partial.widened(operand)
    if wide.nbytes <= most_in_opening(d) and not partial.needs_all:
        total = combined_in_opening(d, facts, wide, partial, partial.native(operand, root or 0))
    else:
        native = None
        if root is None and not partial.needs_all:
            d.agreement.state.prepare_for_reduction()
            native = partial.native(operand, 0)
        d.agreement.open_rows(facts, NOTHING, native=native)
        if partial.needs_all:
            total = fold_in_rank_order(d, wide, partial)
        elif root is None:
            total = _along_rails(d, wide, partial, target)
        else:
            total = _to_root(d, wide, partial, root)
    if target is not None:
        partial.finish(total, target)
    return _OK


def most_in_opening(d: "NodesDispatcher") -> int:
    """Return the bytes that `combined_in_opening` reduces."""
    most: int = d.agreement.state.most_row
    return max(MOST_PARTIAL, most)


def combined_in_opening(
    d: "NodesDispatcher",
    facts: Facts,
    wide: np.ndarray,
    partial: Partial,
    native: tuple[np.ndarray, int, int] | None,
) -> np.ndarray:
    """Open the call, and return the reduction of the arrays of all ranks, which is there until the next opening.
    native: see `Agreement.open_rows`."""

    def offer() -> np.ndarray:
        own = np.empty_like(wide) if d.is_leader else None
        partial.in_node("reduce", wide, own)
        return as_bytes(own) if own is not None else np.empty(0, np.uint8)

    def combine(offers: list[np.ndarray], told: np.ndarray) -> None:
        partial.fold_bytes(offers, into=told)

    if native is not None and facts[0] in _IN_NODES and d.agreement.state.reduces_in_nodes(wide.nbytes):
        return partial.open(facts, wide, native)
    if d.agreement.carries(wide.nbytes):
        rows = d.agreement.open_rows(facts, as_bytes(wide), native=native)
        return partial.fold_ranks([aligned(row, wide.dtype) for row in rows])
    return d.agreement.open(facts, wide.nbytes, offer, combine).view(wide.dtype)


def fold_in_rank_order(
    d: "NodesDispatcher", wide: np.ndarray, partial: Partial, ranks: Sequence[int] | None = None
) -> np.ndarray:
    """Gather the arrays of all ranks, and combine those of some ranks in their order. The call has been agreed on."""
    rows = gather_everywhere(d, as_bytes(wide))
    parts = [aligned(rows[rank], wide.dtype) for rank in (range(d.size) if ranks is None else ranks)]
    return partial.fold([partial.started(parts[0]), *parts[1:]])


def aligned(found: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return bytes as an array of its own of a dtype."""
    made = np.empty(found.size // dtype.itemsize, dtype)
    as_bytes(made)[:] = found
    return made


# --- rails ------------------------------------------------------------------------------------------------------------


def shares(count: int, parts: int) -> list[int]:
    """Divide a number of elements into parts as equal as possible."""
    return [count * (i + 1) // parts - count * i // parts for i in range(parts)]


def _along_rails(d: "NodesDispatcher", wide: np.ndarray, partial: Partial, target: np.ndarray | None) -> np.ndarray:
    result = np.empty_like(wide) if target is None or not partial.is_finished else target.reshape(-1)
    partial.move("all_reduce_long", wide, result)
    return result


def _to_root(d: "NodesDispatcher", wide: np.ndarray, partial: Partial, root: int) -> np.ndarray:
    """Return the reduction on the root; anything on the others."""
    topology = d.topology
    node, at = topology.places[root]
    lengths = [*shares(wide.size, d.leaders), *[0] * (len(topology.local) - d.leaders)]
    own = partial.reduce_scatter_in_node(np.cumsum(lengths) - lengths, lengths, wide)
    pending, parts = Pending(d.channel), [own] * len(topology.nodes)
    if topology.index < d.leaders:
        for other, ranks in enumerate(topology.nodes):
            if topology.node == node != other:
                parts[other] = np.empty_like(own)
                pending.recv(as_bytes(parts[other]), ranks[topology.index])
        if topology.node != node:
            pending.send(as_bytes(own), topology.nodes[node][topology.index])
    d.wait(pending)
    if topology.node != node:
        return own
    if topology.index < d.leaders:
        own = partial.fold([parts[0].copy(), *parts[1:]])
    result = np.empty_like(wide) if d.rank == root else None
    d.inner.gather_v(own, at, recv_counts=lengths if d.rank == root else None, out=result)
    return own if result is None else result


# --- reduce_scatter ---------------------------------------------------------------------------------------------------


def reduce_scatter(
    d: "NodesDispatcher",
    name: str,
    operand: np.ndarray,
    target: np.ndarray,
    kind: int,
    form: int,
    identity: int,
    _0: int,
    kernel: int,
    ordered: int,
    table: int,
) -> int:
    """Blocks are equal parts of the operand, arrays of a list, or parts of different lengths: as `form` says."""
    partial = partial_of(d, operand.dtype, kind, identity, kernel, ordered)
    blocks, shape = _blocks(d, operand, form, table)
    lengths = [block.size for block in blocks]
    hashed = "" if form in (EVEN, LISTED) else f"counts {lengths}"
    facts = (name, f"{operand.dtype}{shape}", hashed, *partial.facts)
    wide = np.concatenate([partial.widened(block) for block in blocks]) if form == LISTED else partial.widened(operand)
    begins = np.cumsum(lengths) - lengths
    own = slice(begins[d.rank], begins[d.rank] + lengths[d.rank])
    native = partial.native(operand, form) if form != LISTED and not partial.needs_all else None
    if partial.needs_all:
        d.agreement.open_rows(facts, NOTHING)
        total = fold_in_rank_order(d, wide, partial)[own]
    elif d.agreement.carries(wide.nbytes, MOST_SCATTERED):
        total = combined_in_opening(d, facts, wide, partial, native)[own]
    else:
        state, total = d.agreement.state, np.empty(lengths[d.rank], wide.dtype)
        if partial.is_finished and target.size:
            total = target.reshape(-1)
        state.prepare_for_reduction()
        d.agreement.open_rows(facts, NOTHING, native=native)
        tables = np.array(lengths, np.int64), begins.astype(np.int64)
        partial.move("to_owners", wide, total, tables)
    partial.finish(np.ascontiguousarray(total), target)
    return _OK


def _blocks(d: "NodesDispatcher", operand: np.ndarray, form: int, table: int) -> tuple[list[np.ndarray], list[int]]:
    """Return the block for each rank, flat, and what messages call the shape of all."""
    if form == EVEN:
        return np.split(operand.reshape(-1), d.size) if operand.size else [operand.reshape(-1)] * d.size, list(
            operand.shape
        )
    if form == LISTED:
        addresses = table_at(table, d.size)
        found = [at_address(int(one), operand.nbytes).view(operand.dtype) for one in addresses]
        first, *rest = operand.shape or (1,)
        return found, [first * d.size, *rest]
    lengths = table_at(table, 2 * d.size)[d.size :].tolist()
    return np.split(operand.reshape(-1), np.cumsum(lengths)[:-1]), [operand.size]
