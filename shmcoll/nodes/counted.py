"""The collectives with counts over nodes: all_to_all_v, all_gather_v, gather_v, scatter_v. One algorithm serves all.

Each rank has the table of `engine/protocol/count_tables.py`. In the phases COUNTS and BOTH all ranks get all tables,
and check them; in DATA and BOTH the blocks move. Native code does both (`native/counted.py`), and makes such a call by
itself once Python has made one of its form, unless it has marks.

All tables together grow with the square of the ranks. Where an opening has no room for them, the ranks exchange what
they send to each other (`moves.personalised`), each rank checks what it sends and receives, and all ranks agree that
all of it fits, before a byte of a result moves (`transport.swap`).

A rank of scatter_v without `out` learns the dtype from the root's counts.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from shmcoll.diagnostics.describe_mismatch import explain_tables
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
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.count_tables import COUNTS, DATA
from shmcoll.nodes.agreement import DISAGREE, NOTHING, Facts
from shmcoll.nodes.moves import personalised
from shmcoll.nodes.native.counted_opening import MOST_FOR_ALL, MOST_IN_ROW
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
    table, is_carried = _Table(address, d.size), d.agreement.state.prepare_for_counts()
    source = NOTHING if x is None else as_bytes(x)
    target = NOTHING if out is None else as_bytes(out)
    if phase != DATA:
        if not is_carried:
            _find_counts(d, name, table, root)
        elif _open(d, name, table, address, source, root) != _OK:
            refuse(d, name, root)
        if phase == COUNTS:
            return _COUNTS_KNOWN
    rows, item = table.rows, table.item
    if is_carried:
        d.agreement.move("move_counted", address, source.ctypes.data, target.ctypes.data, item)
        return _OK
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


def _facts(name: str, table: _Table, root: int) -> tuple[Facts, dict[str, Any], np.ndarray | None]:
    """Return the facts of the call, and those that only ranks with an array know; an array of no dimension of that
    dtype, and None if it has marks or is not known."""
    known = element = None
    if table.ends[ELEMENT_TYPE] >= 0:
        mark, code = divmod(int(table.ends[ELEMENT_TYPE]), 1 << MARK_SHIFT)
        known = (f"{BY_CODE[code].name}{in_words(mark)}",)
        element = np.empty((), BY_CODE[code].numpy) if not mark else None
    more = {"partly_known": known, "unlike": _REFUSED if name == "scatter_v" else DISAGREE}
    return (name, f"root={root}" if name in _ROOTED else ""), more, element


def _open(d: "NodesDispatcher", name: str, table: _Table, address: int, source: np.ndarray, root: int) -> int:
    """Exchange the tables. Return OK or REFUSED."""
    facts, more, element = _facts(name, table, root)
    sender, receiver = root if name == "scatter_v" else ANYONE, root if name == "gather_v" else ANYONE
    native = (element, 0, root) if element is not None or more["partly_known"] is None else None
    most = MOST_FOR_ALL if name == "all_gather_v" else MOST_IN_ROW
    done: int = d.agreement.open_counts(facts, address, source, most, sender, receiver, native=native, **more)
    return done


def refuse(d: "NodesDispatcher", name: str, root: int) -> NoReturn:
    """Raise on all ranks which counts do not fit. `ValueError` leaves the group as it is."""
    agreement = d.agreement
    root = root if name in _ROOTED else 0
    agreement.refuse(ValueError, explain_tables(agreement.state.tables, d.group.name, name, agreement.sequence, root))
    raise AssertionError


def _find_counts(d: "NodesDispatcher", name: str, table: _Table, root: int) -> None:
    """Fill in what this rank receives, and make sure that everything fits on all ranks."""
    rows, ends = table.rows, table.ends
    facts, more, _ = _facts(name, table, root)
    words = np.empty((d.size, 3), np.int64)
    words[:, 0], words[:, 1], words[:, 2] = rows[SEND_COUNTS], ends[ELEMENT_TYPE], ends[COUNT_UNIT]
    told = personalised(d, facts, words.view(np.uint8), **more)
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
