"""barrier, all_gather, all_to_all and collective_permute over nodes.

A function takes the dispatcher, the name of the operation, and the arguments of the native entry as `calls/` pass them,
and returns OK.

all_gather   short: the opening gives all ranks the arrays of all. Long: `gather_everywhere`. Cost: O(r S); long O(0) +
             A + (N - 2) o + (N - 1) r S / B, and N all_gathers of r S in the node
collective_permute
             short: the opening gives all ranks the arrays of all. Long: a message for each pair of ranks. Cost: O(r S);
             long O(0) + A + r S / B
all_to_all   short: the same, and each rank takes its blocks. Longer, among many ranks: one message for each pair of
             nodes, in the opening: all blocks for the ranks there, by receiver. Long: a message for each pair of ranks.
             Cost: O(r S); O(r S / N); long O(0) + A + ((N - 1) r - 1) o + r (N - 1) / N S / B, and an all_to_all in the
             node

N nodes of r ranks, S bytes of an array. A, o, B, and O(S) for an opening: see `agreement.py`.

Native code makes such a call by itself once Python has made one of its form (`native/collectives.py`), unless it works
in place, has marks, or goes in the messages of the leaders. So both send the same messages.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.collectives.collective_permute import NOBODY
from shmcoll.engine import context as c
from shmcoll.engine.kernels.element_marks import MARK_SHIFT
from shmcoll.nodes.agreement import NOTHING, Facts
from shmcoll.nodes.native.layout import MOST_EXCHANGED, MOST_GATHERED
from shmcoll.nodes.native.state import direct_bytes
from shmcoll.nodes.transport import at_address, gather_everywhere, put, swap, table_at
from shmcoll.nodes.wire import as_bytes

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_OK = int(c.OK)


def array_facts(array: np.ndarray, mark: int = 0) -> Facts:
    """Return what must be equal on all ranks about an array."""
    dtype = array.dtype
    # Structured dtypes may be equal and have different words: then those in the cache depend on the calls before
    in_words = _in_words if dtype.fields is None else _in_words.__wrapped__
    return in_words(dtype, array.shape), mark or ""


@lru_cache(maxsize=1024)
def _in_words(dtype: np.dtype, shape: tuple[int, ...]) -> str:
    return f"{dtype}{list(shape)}"


def barrier(d: "NodesDispatcher", name: str) -> int:
    d.agreement.open_rows((name,), NOTHING, native=(None, 0, 0))
    return _OK


def all_gather(
    d: "NodesDispatcher", name: str, x: np.ndarray, out: Any, _0: int, _1: int, mark: int, _2: int, table: int
) -> int:
    block = as_bytes(x)
    length = block.size
    facts = (name, *array_facts(x, mark))
    native = (x, 0, 0) if not mark else None
    if d.agreement.carries(length, MOST_GATHERED):
        rows = d.agreement.open_rows(facts, block, native=native)
    else:
        d.agreement.state.prepare("all_gather_v")
        d.agreement.open_rows(facts, NOTHING, native=native)
        place = None if table else as_bytes(out).reshape(d.size, length)
        if place is not None and place[d.rank].ctypes.data != block.ctypes.data and np.may_share_memory(place, block):
            place = None  # other rows overlap the block
        rows = gather_everywhere(d, block, place)
        if rows is place:
            return _OK
    if table:
        for address, row in zip(table_at(table, d.size), rows, strict=True):
            at_address(int(address), length)[:] = row
    else:
        put(out, rows.reshape(-1))
    return _OK


def gather_in_node(d: "NodesDispatcher", block: np.ndarray) -> np.ndarray:
    """Return the blocks of this node's ranks on its leader, by index; nothing on the others."""
    found = d.inner.gather(block, 0)
    return NOTHING if found is None else found


def all_to_all(
    d: "NodesDispatcher",
    name: str,
    x: np.ndarray,
    out: Any,
    _0: int,
    split: int,
    concat: int,
    _1: int,
    length: int,
    *more: int,
) -> int:
    sources, targets, extents = more[4:]
    mark, concat = concat >> MARK_SHIFT, concat & ((1 << MARK_SHIFT) - 1)
    shape = table_at(extents, 1 + int(table_at(extents, 1)[0]))[1:].tolist() if extents else list(x.shape)
    facts = (name, f"{x.dtype}{shape}", mark or "", f"split_axis={split}", f"concat_axis={concat}")
    if sources:
        blocks = np.concatenate([at_address(int(one), length) for one in table_at(sources, d.size)])
    else:
        apart = x.reshape(*x.shape[:split], d.size, x.shape[split] // d.size, *x.shape[split + 1 :])
        blocks = as_bytes(np.ascontiguousarray(np.moveaxis(apart, split, 0)))
    is_plain = not targets and concat == 0 and not np.may_share_memory(out, x)
    rows = as_bytes(out).reshape(d.size, length) if is_plain else None
    native = (x, 0, 0) if is_plain and not mark and split == 0 and not sources else None
    got = personalised(d, facts, blocks.reshape(d.size, length), rows, native)
    if got is rows:
        return _OK
    if targets:
        for address, row in zip(table_at(targets, d.size), got, strict=True):
            at_address(int(address), length)[:] = row
        return _OK
    block = list(x.shape)
    block[split] //= d.size
    parts = got.reshape(-1).view(x.dtype).reshape(d.size, *block) if x.size else np.empty((d.size, *block), x.dtype)
    put(out, as_bytes(np.ascontiguousarray(np.moveaxis(parts, 0, concat))))
    return _OK


def personalised(
    d: "NodesDispatcher",
    facts: Facts,
    blocks: np.ndarray,
    into: np.ndarray | None = None,
    native: tuple[np.ndarray, int, int] | None = None,
    **more: Any,
) -> np.ndarray:
    """Open a call, and send row r of `blocks` to rank r. Return the rows that all ranks have sent to this one.

    facts, native, more: see `Agreement.open_rows`. into: memory for the rows, which long ones are received in.
    """
    topology, length = d.topology, blocks.shape[1]
    if d.agreement.carries(blocks.size, MOST_EXCHANGED):
        rows = d.agreement.open_rows(facts, blocks.reshape(-1), native=native, **more)
        return rows.reshape(d.size, d.size, length)[:, d.rank]
    if length >= direct_bytes(topology):
        d.agreement.state.prepare("all_to_all_v")
        d.agreement.open_rows(facts, NOTHING, native=native, **more)
        got = np.empty_like(blocks) if into is None else into
        counts, displs = np.full(d.size, length), np.arange(d.size) * length
        swap(d, blocks.reshape(-1), counts, displs, got.reshape(-1), counts, displs)
        return got
    by_receiver = np.empty((len(topology.local), d.size, length), np.uint8)  # on the leader

    def offer() -> list[np.ndarray]:
        found = gather_in_node(d, blocks.reshape(-1))
        if not found.size:
            return [NOTHING] * len(topology.nodes)
        by_sender = found.reshape(len(topology.local), d.size, length)
        return [as_bytes(np.ascontiguousarray(by_sender[:, list(ranks)])) for ranks in topology.nodes]

    def combine(offers: list[np.ndarray], told: np.ndarray) -> None:
        for ranks, one in zip(topology.nodes, offers, strict=True):
            senders = one.reshape(len(ranks), len(topology.local), length)
            by_receiver[:, list(ranks)] = senders.swapaxes(0, 1)

    d.agreement.open(facts, 0, offer, combine, **more)
    if len(topology.local) == 1:
        return by_receiver[0]
    got = np.empty((d.size, length), np.uint8)
    d.inner.scatter(by_receiver.reshape(len(topology.local), -1) if d.is_leader else None, 0, out=got.reshape(1, -1))
    return got


def collective_permute(
    d: "NodesDispatcher",
    name: str,
    x: np.ndarray,
    out: np.ndarray,
    _0: int,
    pairs: int,
    mark: int,
    _1: int,
    source: int,
    target: int,
) -> int:
    facts = (name, *array_facts(x, mark), f"pairs of hash {pairs:x}")
    block, native = as_bytes(x), (x, 0, pairs) if not mark else None
    if d.agreement.carries(block.size, d.agreement.state.most_for_one):
        rows = d.agreement.open_rows(facts, block, native=native)
        put(out, rows[source] if source != NOBODY else np.zeros_like(block))
        return _OK
    d.agreement.state.prepare("all_to_all_v")
    d.agreement.open_rows(facts, NOTHING, native=native)
    block = block.copy() if np.may_share_memory(x, out) else block
    d.agreement.move("permute", source, target, block.ctypes.data, out.ctypes.data, block.size)
    return _OK
