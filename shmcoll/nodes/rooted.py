"""broadcast, scatter and gather over nodes.

Ranks without an array do not know dtype and shape. The root brings these to the opening, as the words that
`calls/foreign_dtypes.py` reads: dtype code and mark, number of dimensions, dimensions. So a call has the phases OPEN
and DATA on such a rank, and BOTH on others. What the root brings has always the same length: behind the words there is
room for a short array, and words for which there is no room follow by a broadcast.

broadcast    short: the root brings the array. Longer: in the root's node; then along a tree of the nodes, each rail
             with its part; then in each node. An array up to SPREAD_BYTES goes along the tree of the leaders, in
             native code (`short/opening.py`). Cost: O(240); longer O(0) + log2(N) (A + S / B) + a broadcast in the node
scatter      the root sends its part to each rank of another node, while its node shares its own parts. Cost: O(240) +
             A + ((N - 1) r - 1) o + (N - 1) r S / B
gather       short: the opening gives all ranks the arrays of all. Longer: the leaders offer the arrays of their nodes
             to the root's leader. Long: each rank of another node sends to the root. Cost: O(r S); long O(0) + A +
             ((N - 1) r - 1) o + (N - 1) r S / B

N nodes of r ranks, S bytes of an array, or of a rank's part. A, o, B, and O(S) for an opening: see `agreement.py`.

Source: the tree is the binomial one, over the nodes in order behind the root's.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.collectives.scatter import DATA, OPEN
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_CODE, BY_NUMPY
from shmcoll.engine.kernels.element_marks import MARK_SHIFT, in_words
from shmcoll.engine.layout import MOST_DIMENSIONS, WORD
from shmcoll.nodes.agreement import DISAGREE, LONGEST_OFFER, NOTHING, UNKNOWN, Facts
from shmcoll.nodes.moves import array_facts, gather_in_node
from shmcoll.nodes.reduction import shares
from shmcoll.nodes.short.collectives import ARRAY_DIMENSIONS, ARRAY_DIMS, ARRAY_LENGTH, ARRAY_TYPE, LONG, SPREAD_BYTES
from shmcoll.nodes.short.layout import MOST_BROUGHT
from shmcoll.nodes.transport import at_address, put, table_at
from shmcoll.nodes.wire import Pending, as_bytes

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_OK = int(c.OK)
_WORDS = 2 + MOST_DIMENSIONS
_MOST_BROUGHT_DIMENSIONS = (MOST_BROUGHT - ARRAY_DIMS) // WORD


def broadcast(
    d: "NodesDispatcher", name: str, x: Any, out: Any, _0: int, root: int, mark: int, _1: int, phase: int, *more: int
) -> int:
    if phase != DATA:
        own = _described(x.dtype, x.shape, mark) if x is not None else None
        native = (x, 0, root) if x is not None and not mark else None
        words, d.kept = _open(d, name, root, own, as_bytes(x) if d.rank == root else None, native=native)
        if phase == OPEN:
            table_at(more[1], _WORDS)[:] = words
            return int(c.SHAPE_KNOWN)
    array, brought = as_bytes(x if d.rank == root else out), d.kept
    if brought is None:
        _spread(d, array, root)
    elif d.rank != root:
        array[:] = brought
    return _OK


def scatter(
    d: "NodesDispatcher",
    name: str,
    x: Any,
    out: Any,
    _0: int,
    root: int,
    _1: int,
    _2: int,
    phase: int,
    table: int,
    last: int,
) -> int:
    if phase != DATA:
        own = None
        if x is not None:
            shape = x.shape
            if d.rank == root and not table:
                shape = (x.shape[0] // d.size, *x.shape[1:])
            own = _described(x.dtype, shape, last)
        words, _ = _open(d, name, root, own, None, (ValueError, "scatter: the parts do not fit the `out` of all ranks"))
        if phase == OPEN:
            table_at(last, _WORDS)[:] = words
            return int(c.SHAPE_KNOWN)
    _hand_out(d, x, as_bytes(out), root, table)
    return _OK


def gather(
    d: "NodesDispatcher", name: str, x: np.ndarray, out: Any, _0: int, root: int, mark: int, _1: int, table: int
) -> int:
    block, topology = as_bytes(x), d.topology
    length, (node, _) = block.size, topology.places[root]
    facts = (name, *array_facts(x, mark), f"root={root}")
    is_here = topology.node == node
    if length <= d.agreement.most_row:
        rows = d.agreement.open_rows(facts, block, native=(x, 0, root) if not mark else None)
    elif length * max(map(len, topology.nodes)) <= LONGEST_OFFER and length * d.size <= 2 * LONGEST_OFFER:

        def offer() -> list[np.ndarray]:
            found = gather_in_node(d, block)
            return [found if other == node else NOTHING for other in range(len(topology.nodes))]

        def combine(offers: list[np.ndarray], told: np.ndarray) -> None:
            for ranks, one in zip(topology.nodes, offers, strict=True) if is_here else ():
                told.reshape(d.size, length)[list(ranks)] = one.reshape(len(ranks), length)

        rows = d.agreement.open(facts, length * d.size if is_here else 0, offer, combine)
    else:
        d.agreement.open(facts)
        rows = _collect(d, block, root, out if d.rank == root and not table else None)
    if d.rank == root:
        if table:
            for address, row in zip(table_at(table, d.size), rows.reshape(d.size, length), strict=True):
                at_address(int(address), length)[:] = row
        elif rows.size and rows.ctypes.data != out.ctypes.data:
            put(out, rows.reshape(-1))
    return _OK


# --- what the root has ------------------------------------------------------------------------------------------------


def _described(dtype: np.dtype, shape: tuple[int, ...], mark: int) -> np.ndarray:
    """Return an array in words, as `calls/foreign_dtypes.py` reads them."""
    words = np.zeros(_WORDS, np.int64)
    words[0] = BY_NUMPY[dtype].code | mark << MARK_SHIFT
    words[1] = len(shape)
    words[2 : 2 + len(shape)] = shape
    return words


def _open(
    d: "NodesDispatcher",
    name: str,
    root: int,
    own: np.ndarray | None,
    array: np.ndarray | None,
    unlike: tuple[type[Exception], str] = DISAGREE,
    native: tuple[np.ndarray, int, int] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Open the call. Return the words that describe the root's array, and its bytes, on all ranks; None in place of the
    bytes if they are too long for an opening.

    own: the words of this rank's array, if it has one. array: its bytes, on the root of a broadcast. native: see
    `Agreement.open_rows`.
    """
    brought, known = np.zeros(MOST_BROUGHT, np.uint8), UNKNOWN
    if own is not None:
        code, mark = int(own[0]) & ((1 << MARK_SHIFT) - 1), int(own[0]) >> MARK_SHIFT
        known = (f"{BY_CODE[code].name}{own[2 : 2 + own[1]].tolist()}{in_words(mark)}",)
        if d.rank == root:
            _bring(brought, own, array)
    facts: Facts = (name, f"root={root}")
    told = d.agreement.open_rows(facts, brought, root, partly_known=known, unlike=unlike, native=native).copy()
    head = told[: MOST_BROUGHT // WORD * WORD].view(np.int64)
    length, dimensions = int(head[ARRAY_LENGTH // WORD]), int(head[ARRAY_DIMENSIONS // WORD])
    words = np.zeros(_WORDS, np.int64)
    if dimensions > _MOST_BROUGHT_DIMENSIONS:
        if own is not None:
            words[:] = own
        _spread(d, words.view(np.uint8), root)
    else:
        words[: 2 + dimensions] = head[ARRAY_TYPE // WORD :][: 2 + dimensions]
    begin = ARRAY_DIMS + dimensions * WORD
    return words, None if length == LONG else told[begin : begin + length]


def _bring(brought: np.ndarray, own: np.ndarray, array: np.ndarray | None) -> None:
    """Write what the root brings; see `short/collectives.py`."""
    dimensions = int(own[1])
    head = brought[: MOST_BROUGHT // WORD * WORD].view(np.int64)
    begin = ARRAY_DIMS + dimensions * WORD
    head[ARRAY_LENGTH // WORD] = LONG
    given = 2 + min(dimensions, _MOST_BROUGHT_DIMENSIONS)
    head[ARRAY_TYPE // WORD :][:given] = own[:given]
    if array is not None and begin + array.size <= MOST_BROUGHT:
        head[ARRAY_LENGTH // WORD] = array.size
        brought[begin : begin + array.size] = array


# --- moving -----------------------------------------------------------------------------------------------------------


def _spread(d: "NodesDispatcher", array: np.ndarray, root: int) -> None:
    """Copy the bytes of the root to all ranks. The call has been agreed on."""
    if not array.size:
        return
    if array.size <= SPREAD_BYTES:
        d.agreement.check(d.agreement.state.spread(array, root))
        return
    topology, rails = d.topology, d.leaders
    node, at = topology.places[root]
    if topology.node == node:
        d.inner.broadcast(array, at)
    lengths = [*shares(array.size, rails), *[0] * (len(topology.local) - rails)]
    begins = [sum(lengths[:i]) for i in range(len(lengths))]
    own = array[begins[topology.index] :][: lengths[topology.index]]
    if topology.index < rails:
        _along_tree(d, own, node)
    if topology.node != node:
        d.inner.all_gather_v(own.copy(), recv_counts=lengths, out=array)


def _along_tree(d: "NodesDispatcher", part: np.ndarray, root: int) -> None:
    """Pass bytes along the binomial tree of the ranks of one rail. root: the node that has them."""
    nodes, index = d.topology.nodes, d.topology.index
    count = len(nodes)
    place, step = (d.topology.node - root) % count, 1
    pending = Pending(d.channel)
    while step < count and not place & step:
        step *= 2
    if place:
        pending.recv(part, nodes[(place - step + root) % count][index])
        d.wait(pending)
    pending = Pending(d.channel)
    while step > 1:
        step //= 2
        if place + step < count:
            pending.send(part, nodes[(place + step + root) % count][index])
    d.wait(pending)


def _hand_out(d: "NodesDispatcher", x: Any, target: np.ndarray, root: int, table: int) -> None:
    """Send each rank its part of the root's array, or its array of the root's list."""
    topology, length = d.topology, target.size
    node, at = topology.places[root]
    pending = Pending(d.channel)
    if d.rank == root:
        if table:
            parts = [at_address(int(one), length) for one in table_at(table, d.size)]
        else:
            parts = list(as_bytes(x).reshape(d.size, length))
        local = np.concatenate([parts[rank] for rank in topology.local]) if length else target
        for rank, part in enumerate(parts):
            if rank not in set(topology.local):
                pending.send(part, rank)
    if topology.node != node:
        pending.recv(target, root)
    elif length:
        d.inner.scatter(local.reshape(len(topology.local), length) if d.rank == root else None, at, out=target[None])
    d.wait(pending)


def _collect(d: "NodesDispatcher", block: np.ndarray, root: int, out: Any) -> np.ndarray:
    """Return the arrays of all ranks on the root: in `out`, if that is an array."""
    topology, length = d.topology, block.size
    node, at = topology.places[root]
    pending = Pending(d.channel)
    if topology.node != node:
        pending.send(block, root)
        d.wait(pending)
        return NOTHING
    local = list(topology.local)
    if d.rank != root:
        d.inner.gather(block, at)
        return NOTHING
    whole = as_bytes(out) if out is not None else np.empty(d.size * length, np.uint8)
    rows = whole.reshape(d.size, length)
    for rank in range(d.size):
        if rank not in local:
            pending.recv(rows[rank], rank)
    own = block.copy() if np.shares_memory(block, whole) else block
    d.inner.gather(own, at, out=[rows[rank] for rank in local])
    d.wait(pending)
    return whole
