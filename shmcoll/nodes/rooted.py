"""broadcast, scatter and gather over nodes.

Ranks without an array do not know dtype and shape. The root brings these to the opening, as the words that
`calls/foreign_dtypes.py` reads: dtype code and mark, number of dimensions, dimensions (`native/root_opening.py`). So a
call has the phases OPEN and DATA on such a rank, and BOTH on others. Dimensions for which there is no room follow by a
broadcast.

broadcast    short: the array comes with the opening. Longer: along a tree of the nodes, in native code
             (`native/long_moves.py`). Cost: O(S); longer O(0) + log2(N) (A + S / B) + a broadcast in the node
scatter      short: the array comes with the opening, and each rank takes its part. Longer: the root sends its part to
             each rank of another node, while its node shares its own parts, in native code. Cost: O(N r S); longer
             O(0) + A + ((N - 1) r - 1) o + (N - 1) r S / B
gather       short: the opening gives all ranks the arrays of all. Long: each rank of another node sends to the root, in
             native code. Cost: O(r S); long O(0) + A + ((N - 1) r - 1) o + (N - 1) r S / B

N nodes of r ranks, S bytes of an array, or of a rank's part. A, o, B, and O(S) for an opening: see `agreement.py`.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.collectives.scatter import DATA, OPEN
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_CODE, BY_NUMPY
from shmcoll.engine.kernels.element_marks import MARK_SHIFT, in_words
from shmcoll.engine.layout import MOST_DIMENSIONS, WORD
from shmcoll.nodes.agreement import DISAGREE, NOTHING, UNKNOWN, Facts
from shmcoll.nodes.moves import array_facts
from shmcoll.nodes.native.layout import MOST_BROUGHT
from shmcoll.nodes.native.root_opening import (
    ARRAY_DIMENSIONS,
    ARRAY_DIMS,
    ARRAY_LENGTH,
    ARRAY_TYPE,
    LONG,
    following,
    most_following,
    most_scattered,
)
from shmcoll.nodes.transport import at_address, put, table_at
from shmcoll.nodes.wire import as_bytes

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
        array = as_bytes(x) if x is not None else None
        words, d.kept = _open(d, name, root, own, array, array.size if array is not None else LONG, native=native)
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
        own, array, length, native = None, None, LONG, None
        if x is not None:
            shape = x.shape
            if d.rank == root and not table:
                shape = (x.shape[0] // d.size, *x.shape[1:])
            own = _described(x.dtype, shape, last)
            length = d.size * math.prod(shape) * x.dtype.itemsize
            if length > most_scattered(len(d.topology.nodes)):
                length = LONG
            if d.rank == root and length != LONG:
                array = np.concatenate(_parts(d, x, length // d.size, table)) if table else as_bytes(x)
            native = (x, 0, root) if not last and not table else None
        unlike = ValueError, "scatter: the parts do not fit the `out` of all ranks"
        words, d.kept = _open(d, name, root, own, array, length, unlike, native)
        if phase == OPEN:
            table_at(last, _WORDS)[:] = words
            return int(c.SHAPE_KNOWN)
    part = as_bytes(out)
    if d.kept is None:
        _hand_out(d, x, part, root, table)
    elif part.size:
        part[:] = d.kept.reshape(d.size, part.size)[d.rank]
    return _OK


def _parts(d: "NodesDispatcher", x: np.ndarray, length: int, table: int) -> list[np.ndarray]:
    """Return the part for each rank, of `length` bytes: of the root's array, or its arrays in a table."""
    if table:
        return [at_address(int(one), length) for one in table_at(table, d.size)]
    return list(as_bytes(x).reshape(d.size, length))


def gather(
    d: "NodesDispatcher", name: str, x: np.ndarray, out: Any, _0: int, root: int, mark: int, _1: int, table: int
) -> int:
    block = as_bytes(x)
    length, facts = block.size, (name, *array_facts(x, mark), f"root={root}")
    native = (x, 0, root) if not mark else None
    if d.agreement.carries(length, d.agreement.state.most_for_one):
        rows = d.agreement.open_rows(facts, block, native=native)
    else:
        d.agreement.open_rows(facts, NOTHING, native=native)
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
    length: int,
    unlike: tuple[type[Exception], str] = DISAGREE,
    native: tuple[np.ndarray, int, int] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Open the call. Return the words that describe the root's array, and its bytes, on all ranks; None in place of the
    bytes if they are too long for an opening.

    own: the words of this rank's array, if it has one. array, length: the bytes of the root's, on the root, and how
    many they are, on a rank that knows it, or LONG. native: see `Agreement.open_rows`.
    """
    brought, known, follows = np.zeros(MOST_BROUGHT, np.uint8), UNKNOWN, 0
    if own is not None:
        code, mark = int(own[0]) & ((1 << MARK_SHIFT) - 1), int(own[0]) >> MARK_SHIFT
        known = (f"{BY_CODE[code].name}{own[2 : 2 + own[1]].tolist()}{in_words(mark)}",)
        dimensions = int(own[1])
        fits = length <= most_following(len(d.topology.nodes)) and dimensions <= _MOST_BROUGHT_DIMENSIONS
        told = length if fits else LONG
        follows = following(told, dimensions)
        if d.rank == root:
            _bring(brought, own, told, None if follows or told == LONG else array)
    facts: Facts = (name, f"root={root}")
    options: dict[str, Any] = {"partly_known": known, "unlike": unlike, "native": native}
    found = d.agreement.open_array(facts, brought, array if d.rank == root else None, follows, root, **options)
    head = found.view(np.int64)
    length, dimensions = int(head[ARRAY_LENGTH // WORD]), int(head[ARRAY_DIMENSIONS // WORD])
    words = np.zeros(_WORDS, np.int64)
    if dimensions > _MOST_BROUGHT_DIMENSIONS:
        if own is not None:
            words[:] = own
        _spread(d, words.view(np.uint8), root)
    else:
        words[: 2 + dimensions] = head[ARRAY_TYPE // WORD :][: 2 + dimensions]
    if length == LONG:
        return words, None
    begin = ARRAY_DIMS + dimensions * WORD
    return words, d.agreement.state.array(length).copy() if following(length, dimensions) else found[begin:][:length]


def _bring(brought: np.ndarray, own: np.ndarray, length: int, array: np.ndarray | None) -> None:
    """Write what the root brings; see `native/root_opening.py`. array: if it is within that."""
    head, dimensions = brought.view(np.int64), int(own[1])
    given = 2 + min(dimensions, _MOST_BROUGHT_DIMENSIONS)
    head[ARRAY_LENGTH // WORD] = length
    head[ARRAY_TYPE // WORD :][:given] = own[:given]
    if array is not None:
        begin = ARRAY_DIMS + dimensions * WORD
        brought[begin : begin + array.size] = array


# --- moving -----------------------------------------------------------------------------------------------------------


def _spread(d: "NodesDispatcher", array: np.ndarray, root: int) -> None:
    """Copy the bytes of the root to all ranks. The call has been agreed on."""
    if array.size:
        d.agreement.state.prepare("all_gather_v")
        d.agreement.move("spread", array.ctypes.data, array.size, root)


def _hand_out(d: "NodesDispatcher", x: Any, target: np.ndarray, root: int, table: int) -> None:
    """Send each rank its part of the root's array, or its array of the root's list."""
    rows = target
    if d.rank == root:
        rows = np.concatenate(_parts(d, x, target.size, table)) if table else as_bytes(x)
    d.agreement.state.prepare("all_to_all_v")
    d.agreement.move("hand_out_rows", rows.ctypes.data, target.ctypes.data, target.size, root)


def _collect(d: "NodesDispatcher", block: np.ndarray, root: int, out: Any) -> np.ndarray:
    """Return the blocks of all ranks on the root: in `out`, if that is an array."""
    rows = block
    if d.rank == root:
        rows = as_bytes(out) if out is not None else np.empty(d.size * block.size, np.uint8)
        own = rows[d.rank * block.size :]
        if own.ctypes.data != block.ctypes.data and np.shares_memory(block, rows):
            block = block.copy()
    d.agreement.state.prepare("all_to_all_v")
    d.agreement.move("collect_rows", block.ctypes.data, block.size, rows.ctypes.data, root)
    return rows
