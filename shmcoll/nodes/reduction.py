"""all_reduce, reduce and reduce_scatter over nodes.

shortest     the opening gives all ranks the arrays of all, and each of them combines them
short        each node reduces to its leader, the leaders exchange the results of their nodes in the opening, and each
             of them combines all. Cost: R + O(S) + (N - 1) S g
all_reduce   rails: in segments, the ranks of a node reduce and divide a segment; rank i exchanges its slice with the
             ranks i of the other nodes; the ranks of a node collect the slices. While the messages of a segment are on
             their way, the next one is reduced. With 2 nodes the slices are exchanged whole; with more, each rank of a
             rail reduces one piece of the slice and sends the result to the others. Cost: O(0) and the longer of R' and
             W / B, with W = S for 2 nodes and else 2 (N - 1) / N S; for each segment 1 or 2 exchanges A + (N - 2) o;
             and (N - 1) / (N L) S g, or S g / L for 2 nodes
reduce       the same, to the ranks of the root's node, which give their slices to the root
reduce_scatter
             for each node, its blocks are reduced and divided in the sender's node; each block goes to its owner, who
             combines what it gets from all nodes. Cost: O(0) + R' + r (N - 1) / N S / B
ordered      an operator that is not commutative, where ranks of a node are not neighbours: every rank gets the arrays
             of all ranks, and combines them in their order

N nodes of r ranks, L of which are leaders, S bytes of an array, g for a reduced byte. R: a reduce in a node. R': a
reduce_scatter in a node, and for all_reduce an all_gather as well. A, o, B, and O(S) for an opening: `agreement.py`.
Source: rails are those of DPML (Bayatpour et al., SC'17) and of UCC's split_rail.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shmcoll.collectives.reduce_scatter import EVEN, LISTED
from shmcoll.engine import context as c
from shmcoll.nodes.agreement import LONGEST_OFFER, Facts
from shmcoll.nodes.moves import array_facts
from shmcoll.nodes.operators import Partial, partial_of
from shmcoll.nodes.transport import at_address, gather_everywhere, staging, table_at
from shmcoll.nodes.wire import Pending, as_bytes

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_OK = int(c.OK)
SHORT_BYTES = LONGEST_OFFER // 2  # of partial results, which travel in an opening
SEGMENT_BYTES = 2 << 20


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
        total = combined_in_opening(d, facts, operand, wide, partial, root or 0)
    else:
        d.agreement.open(facts)
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
    most: int = d.agreement.most_row
    return max(SHORT_BYTES, most)


def combined_in_opening(
    d: "NodesDispatcher", facts: Facts, operand: np.ndarray, wide: np.ndarray, partial: Partial, root: int = 0
) -> np.ndarray:
    """Open the call, and return the reduction of the arrays of all ranks, which is there until the next opening."""

    def offer() -> np.ndarray:
        own = np.empty_like(wide) if d.is_leader else None
        partial.in_node("reduce", wide, own)
        return as_bytes(own) if own is not None else np.empty(0, np.uint8)

    def combine(offers: list[np.ndarray], told: np.ndarray) -> None:
        partial.fold_bytes(offers, into=told)

    if wide.nbytes <= d.agreement.most_row:
        rows = d.agreement.open_rows(facts, as_bytes(wide), native=partial.native(operand, root))
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
    # Written segment by segment, each after all ranks of the node have read it: `target` may be the operand
    result = np.empty_like(wide) if target is None or not partial.is_finished else target.reshape(-1)
    step = max(SEGMENT_BYTES // wide.itemsize, 1)
    before: _Slice | None = None
    for number, begin in enumerate(range(0, wide.size, step)):
        now = _Slice(d, partial, wide[begin : begin + step], result[begin : begin + step], number)
        if before is not None:
            before.finish()
        before = now
    if before is not None:
        before.finish()
    return result


class _Slice:
    """One segment of an all_reduce: reduced in the node and sent on its way when it is made, collected by `finish`.

    number: of the segment. Two segments are on their way at a time, so what a segment receives is stored in one of two
    places, which are used again: new memory would cost more than the sum.

    The only rank of a node sends its operand as it is, and writes the result of the segment directly. Otherwise a rank
    works on `_own`, its slice of the segment. What it has sent from there, it may overwrite.
    """

    def __init__(
        self, d: "NodesDispatcher", partial: Partial, segment: np.ndarray, result: np.ndarray, number: int
    ) -> None:
        self._d, self._partial, self._result, self._key = d, partial, result, number % 2
        ranks = len(d.topology.local)
        self._lengths = [*shares(segment.size, d.leaders), *[0] * (ranks - d.leaders)]
        starts = np.cumsum(self._lengths) - self._lengths
        if ranks == 1 and partial.starts_as_it_is:
            self._own = segment
        else:
            self._own = partial.reduce_scatter_in_node(starts, self._lengths, segment)
        self._total = result if ranks == 1 else self._own
        nodes = len(d.topology.nodes)
        self._pieces = [self._own.size] if nodes <= 2 else shares(self._own.size, nodes)
        self._begins = np.cumsum(self._pieces) - self._pieces
        self._pending = Pending(d.channel)
        if d.topology.index < d.leaders:
            self._exchange_partials()

    def _piece(self, array: np.ndarray, node: int) -> np.ndarray:
        """Return the part of a slice that the rank of this rail on a node combines: all of it for 2 nodes."""
        piece = node if len(self._pieces) > 1 else 0
        return array[self._begins[piece] :][: self._pieces[piece]]

    def _others(self) -> list[tuple[int, int]]:
        """Return the other nodes, beginning behind this one, with the rank of this rail there."""
        nodes, here = self._d.topology.nodes, self._d.topology.node
        behind = [(here + i) % len(nodes) for i in range(1, len(nodes))]
        return [(node, nodes[node][self._d.topology.index]) for node in behind]

    def _exchange_partials(self) -> None:
        d, here = self._d, self._d.topology.node
        self._parts = [self._piece(self._own, here)] * len(d.topology.nodes)
        for node, rank in self._others():
            self._parts[node] = staging(d, (self._key, node), self._parts[here].size, self._own.dtype)
            self._pending.recv(as_bytes(self._parts[node]), rank)
        for node, rank in self._others():
            self._pending.send(as_bytes(self._piece(self._own, node)), rank)

    def finish(self) -> None:
        d = self._d
        d.wait(self._pending)
        if d.topology.index < d.leaders:
            self._combine()
            if len(self._pieces) > 1:
                self._exchange_totals()
        if self._total is self._result:
            return
        if len(set(self._lengths)) == 1:
            d.inner.all_gather(self._own, out=self._result)
        else:
            d.inner.all_gather_v(self._own, recv_counts=self._lengths, out=self._result)

    def _combine(self) -> None:
        """Combine the parts of all nodes in their order, in this rank's piece of the total. That may be the memory of
        its own part, which must be read before."""
        here, parts = self._d.topology.node, self._parts
        into = self._piece(self._total, here)
        so_far = into if here < 2 else parts[0]
        for node, part in enumerate(parts[1:], 1):
            first = parts[0] if node == 1 else so_far
            self._partial.combine(first, part, into if node == len(parts) - 1 else so_far)

    def _exchange_totals(self) -> None:
        d, pending = self._d, Pending(self._d.channel)
        for node, rank in self._others():
            pending.recv(as_bytes(self._piece(self._total, node)), rank)
        for _, rank in self._others():
            pending.send(as_bytes(self._piece(self._total, d.topology.node)), rank)
        d.wait(pending)


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
    if partial.needs_all:
        d.agreement.open(facts)
        total = fold_in_rank_order(d, wide, partial)[own]
    elif wide.nbytes <= most_in_opening(d):
        total = combined_in_opening(d, facts, operand, wide, partial)[own]
    else:
        d.agreement.open(facts)
        total = _to_owners(d, wide, partial, begins, lengths)
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


def _to_owners(
    d: "NodesDispatcher", wide: np.ndarray, partial: Partial, begins: np.ndarray, lengths: list[int]
) -> np.ndarray:
    """Return the reduction of this rank's block. Block j of a node is reduced in each other node by rank j, modulo its
    ranks there."""
    topology = d.topology
    here, mine, n = topology.node, topology.index, len(topology.local)
    pending = Pending(d.channel)
    parts = [np.empty(lengths[d.rank], wide.dtype) for _ in topology.nodes]
    for node, ranks in enumerate(topology.nodes):
        if node != here:
            pending.recv(as_bytes(parts[node]), ranks[mine % len(ranks)])
    kept = []
    for i in range(1, len(topology.nodes) + 1):
        node = (here + i) % len(topology.nodes)  # this node last: the others wait for theirs
        ranks = topology.nodes[node]
        by_owner = [[rank for j, rank in enumerate(ranks) if j % n == owner] for owner in range(n)]
        counts = [sum(lengths[rank] for rank in owned) for owned in by_owner]
        if all(len(owned) <= 1 for owned in by_owner):
            starts = [int(begins[owned[0]]) if owned else 0 for owned in by_owner]
            reduced = partial.reduce_scatter_in_node(starts, counts, wide)
        else:
            pieces = [wide[begins[rank] :][: lengths[rank]] for owned in by_owner for rank in owned]
            joined = np.concatenate(pieces)
            reduced = partial.reduce_scatter_in_node(np.cumsum(counts) - counts, counts, joined)
        if node == here:
            parts[here] = reduced
            break
        kept.append(reduced)
        at = 0
        for rank in by_owner[mine]:
            pending.send(as_bytes(reduced[at : at + lengths[rank]]), rank)
            at += lengths[rank]
    d.wait(pending)
    return partial.fold(parts)
