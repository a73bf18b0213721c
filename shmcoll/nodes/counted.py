"""The collectives with counts over nodes: all_to_all_v, all_gather_v, gather_v, scatter_v. One algorithm serves all.

Each rank has the table of `engine/protocol/count_tables.py`. In the phases COUNTS and BOTH the ranks exchange what they
send to each other (`moves.personalised`), each rank checks what it sends and receives, and all ranks agree that all of
it fits, before a byte of a result moves. In DATA and BOTH the blocks move (`transport.swap`).

A rank of scatter_v without `out` learns the dtype from the root's counts.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.kernels.element_marks import MARK_SHIFT, ROWS, in_words
from shmcoll.engine.layout import (
    COUNT_UNIT,
    ELEMENT_TYPE,
    RECV_COUNTS,
    RECV_DISPLS,
    RECV_ROOM,
    RESULT_SIZE,
    SEND_COUNTS,
    SEND_DISPLS,
    SOURCE_SIZE,
    TABLE_SIZES,
    table_words,
)
from shmcoll.engine.protocol.count_tables import COUNTS, DATA
from shmcoll.nodes.agreement import DISAGREE, NOTHING
from shmcoll.nodes.moves import personalised
from shmcoll.nodes.transport import swap, table_at
from shmcoll.nodes.wire import as_bytes

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_OK, _COUNTS_KNOWN = int(c.OK), int(c.COUNTS_KNOWN)
_ROOTED = ("gather_v", "scatter_v")
_REFUSED = ValueError, "scatter_v: the parts do not have the dtype of the `out` of all ranks"


class _Table:
    """The table of this rank's call, where `calls/` have it."""

    def __init__(self, address: int, size: int):
        words = table_at(address, table_words(size))
        self.rows = words[: TABLE_SIZES * size].reshape(TABLE_SIZES, size)
        self.ends = words[TABLE_SIZES * size :]

    @property
    def item(self) -> int:
        """The bytes of an element as it is counted."""
        code = int(self.ends[ELEMENT_TYPE]) & ((1 << MARK_SHIFT) - 1)
        return BY_CODE[code].numpy.itemsize if self.ends[ELEMENT_TYPE] >= 0 else 1


def exchange(
    d: "NodesDispatcher", name: str, x: Any, out: Any, _0: int, root: int, mark: int, _1: int, phase: int, address: int
) -> int:
    table = _Table(address, d.size)
    if phase != DATA:
        _find_counts(d, name, table, root)
        if phase == COUNTS:
            return _COUNTS_KNOWN
    rows, item = table.rows, table.item
    source = NOTHING if x is None else as_bytes(x)
    target = NOTHING if out is None else as_bytes(out)
    swap(
        d,
        source,
        rows[SEND_COUNTS] * item,
        rows[SEND_DISPLS] * item,
        target,
        rows[RECV_COUNTS] * item,
        rows[RECV_DISPLS] * item,
    )
    return _OK


def _find_counts(d: "NodesDispatcher", name: str, table: _Table, root: int) -> None:
    """Fill in what this rank receives, and make sure that everything fits on all ranks."""
    rows, ends = table.rows, table.ends
    facts = (name, f"root={root}" if name in _ROOTED else "")
    known = None
    if ends[ELEMENT_TYPE] >= 0:
        code, mark = int(ends[ELEMENT_TYPE]) & ((1 << MARK_SHIFT) - 1), int(ends[ELEMENT_TYPE]) >> MARK_SHIFT
        known = (f"{BY_CODE[code].name}{in_words(mark)}",)
    words = np.empty((d.size, 3), np.int64)
    words[:, 0], words[:, 1], words[:, 2] = rows[SEND_COUNTS], ends[ELEMENT_TYPE], ends[COUNT_UNIT]
    unlike = _REFUSED if name == "scatter_v" else DISAGREE
    told = personalised(d, facts, words.view(np.uint8), partly_known=known, unlike=unlike)
    counts, types, units = told.reshape(-1).view(np.int64).reshape(d.size, 3).T
    wrong = _what_is_wrong(d, table, counts)
    rows[RECV_COUNTS] = counts
    packed = np.cumsum(counts) - counts
    rows[RECV_DISPLS] = np.where(rows[RECV_DISPLS] < 0, packed, rows[RECV_DISPLS])
    if ends[ELEMENT_TYPE] < 0:
        ends[ELEMENT_TYPE], ends[COUNT_UNIT] = types.max(), units[types.argmax()]
    raise_together(d, name, wrong)


def raise_together(d: "NodesDispatcher", name: str, wrong: str, kind: type[Exception] = ValueError) -> None:
    """Raise on all ranks if something is wrong on one of them. `ValueError` leaves the group as it is."""
    own, facts = np.array([wrong != ""], np.uint8), (name, "what ranks have found")
    if not d.agreement.open_rows(facts, own).any():
        return
    first = next(text for text in d.agreement.texts(wrong) if text)
    text = f"{name} #{d.agreement.sequence - 1}: {first}"
    d.agreement.refuse(kind, text)


def _what_is_wrong(d: "NodesDispatcher", table: _Table, counts: np.ndarray) -> str:
    """Return what does not fit of what this rank sends and receives; empty if all of it does. counts: what all ranks
    send to this one."""
    rows, ends = table.rows, table.ends
    unit = max(int(ends[COUNT_UNIT]), 1)
    mark = int(ends[ELEMENT_TYPE]) >> MARK_SHIFT if ends[ELEMENT_TYPE] >= 0 else 0
    what = "rows" if mark & ROWS else "elements"
    me, ranks = d.failures.name, [d.group.name(rank) for rank in range(d.size)]
    for peer in map(int, np.flatnonzero(rows[SEND_COUNTS] > 0)):
        count, start = int(rows[SEND_COUNTS, peer]), int(rows[SEND_DISPLS, peer])
        if start + count > ends[SOURCE_SIZE]:
            return (
                f"rank {me} sends {count // unit} {what} from displacement {start // unit} to rank {ranks[peer]}, but "
                f"its source has {int(ends[SOURCE_SIZE]) // unit}"
            )
    packed, spans = 0, []
    for peer, count in enumerate(map(int, counts)):
        expected, room, place = (int(rows[row, peer]) for row in (RECV_COUNTS, RECV_ROOM, RECV_DISPLS))
        start = packed if place < 0 else place
        packed += count
        if 0 <= expected != count:
            return f"rank {me} expects {expected // unit} {what} from rank {ranks[peer]}, which sends {count // unit}"
        if 0 <= room < count:
            return f"rank {ranks[peer]} sends {count // unit} {what} to rank {me}, which has room for {room // unit}"
        if count and 0 <= ends[RESULT_SIZE] < start + count:
            return (
                f"{count // unit} {what} from rank {ranks[peer]} at displacement {start // unit} of rank {me} do not "
                f"fit its result of {int(ends[RESULT_SIZE]) // unit}"
            )
        if count:
            spans.append((start, start + count, peer))
    spans.sort()
    for (_, end, one), (start, _, other) in pairwise(spans):
        if start < end:
            both = f"ranks {ranks[one]} and {ranks[other]}"
            return f"what rank {me} receives from {both} overlaps at displacement {start // unit}"
    return ""
