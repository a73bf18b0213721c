"""The text of a verdict that all ranks have reached together: the same on every rank."""

from collections.abc import Callable, Sequence
from itertools import pairwise, product

import numpy as np

from shmcoll.collectives import record_of
from shmcoll.collectives.scatter import MARK_IN_HEADER
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.kernels.element_marks import MARK_SHIFT, ROWS, in_words
from shmcoll.engine.layout import WORD, call_composite, call_dimensions, call_dtype, call_operation
from shmcoll.engine.memory.group import Group

_SAME_CALLS = "All ranks must make the same calls in the same order."


def explain_parts(group: Group, sequence: int, root: int, finder: int) -> str:
    """Return which `out` of a scatter is not like the part that the root sends. finder: the rank that
    has found it, which in an eager call compares only its own."""
    told = {}
    for rank in (root, finder) if is_eager(group, sequence, root) else range(group.size):
        mark = group.arena.load(group.header(rank, sequence) + MARK_IN_HEADER)
        told[rank] = array_in_header(group, rank, sequence) + in_words(mark)
    for rank, array in told.items():
        if array not in ("None", told[root]):
            sent = f"rank {group.name(root)} sends it {told[root]}"
            return f"scatter #{sequence}: out of rank {group.name(rank)} is {array}, but {sent}"
    sent = f"{told[root]}, which rank {group.name(root)} sends"
    return f"scatter #{sequence}: an out differs from {sent}, in a dimension after these"


def is_eager(group: Group, sequence: int, root: int) -> bool:
    """Return whether the root of a broadcast or scatter has gone on without the others."""
    return group.arena.load(group.header(root, sequence) + layout.HEADER_EAGER) != 0


def explain_overlap(group: Group, operation: str, sequence: int) -> str:
    """Return whose out overlaps which array in a call of shared arrays, by the headers; '' if no out does. See
    `collectives/all_reduce_parts.py` and `engine/protocol/exposure.py`."""
    headers = [group.header(rank, sequence) for rank in range(group.size)]
    x, out, x_bytes, out_bytes = (
        [group.arena.load(header + word) for header in headers]
        for word in (
            layout.HEADER_EXPOSED,
            layout.HEADER_RESULT,
            layout.HEADER_EXPOSED_BYTES,
            layout.HEADER_RESULT_BYTES,
        )
    )
    reduces = operation == "all_reduce"
    if reduces:  # all arrays are alike, and no rank writes their lengths
        dtype = BY_CODE[call_dtype(group.arena.load(headers[0] + layout.HEADER_CALL))].numpy
        x_bytes = out_bytes = [group.arena.load(headers[0] + layout.HEADER_COUNT) * dtype.itemsize] * group.size
    for a, b in product(range(group.size), repeat=2):
        others = [("x", x[b], x_bytes[b], a == b and (out[a] == x[b] or not reduces))]
        if reduces:
            others.append(("out", out[b], out_bytes[b], a == b))
        for name, place, length, is_itself in others:
            apart = out[a] + out_bytes[a] <= place or place + length <= out[a]
            if out[a] > 0 and place > 0 and not is_itself and not apart:
                whose = f"rank {group.name(a)} overlaps {name} of rank {group.name(b)}"
                return (
                    f"{operation} #{sequence}: out of {whose}; give an out of its own{', or out=x' if reduces else ''}"
                )
    return ""


def explain_faces(group: Group, words: np.ndarray) -> str:
    """Return whose faces differed in a halo exchange, which left that in a context; '' if it did not get so far."""
    culprit, axis, other = (int(words[word // WORD]) for word in (c.CULPRIT, c.UNLIKE_AXIS, c.UNLIKE_NEIGHBOUR))
    if axis == 0:
        return ""
    return (
        f"Ranks {group.name(culprit)} and {group.name(other)} are neighbours along axis {axis - 1}, "
        f"so all other axes of their arrays must be equal."
    )


def advise(group: Group, sequence: int) -> str:
    """Return what to do about calls that differ."""
    headers = [group.header(rank, sequence) for rank in range(group.size)]
    if any(group.arena.load(header + layout.HEADER_SEQUENCE) != sequence for header in headers):
        return _SAME_CALLS

    def differs(first: int, words: int) -> bool:
        places = range(first, first + words * WORD, WORD)
        return any(group.arena.load(one + i) != group.arena.load(headers[0] + i) for one in headers for i in places)

    call = group.arena.load(headers[0] + layout.HEADER_CALL)
    record, ndim = record_of(call_operation(call)), call_dimensions(call)
    is_alike = not (differs(layout.HEADER_CALL, 1) or differs(layout.HEADER_ARGUMENTS, 2) or call_composite(call))
    if not is_alike or record is None or record.name not in ("gather", "all_gather"):
        return _SAME_CALLS
    name, root = record.name, ", root" if record.name == "gather" else ""
    if differs(layout.HEADER_DIMS + WORD, min(ndim, layout.HEADER_MAX_DIMS) - 1):
        return f"For arrays of different shapes use {name}_object, or {name}_v(x{root}), which flattens them."
    return f"For arrays of different lengths use {name}_v(x{root}, axis=0)."


def array_in_header(group: Group, rank: int, sequence: int) -> str:
    """Return dtype and shape of the array that a rank's header describes, as text; None for no array."""
    header = group.header(rank, sequence)
    return array_in(lambda offset: group.arena.load(header + offset))


def array_in(load: Callable[[int], int]) -> str:
    """Return the same from the words of a header. load: returns the word at an offset in it."""
    word = load(layout.HEADER_CALL)
    dtype, ndim = call_dtype(word), call_dimensions(word)
    if dtype == 0:
        return "None"
    shown = min(ndim, layout.HEADER_MAX_DIMS)
    dims = [str(load(layout.HEADER_DIMS + i * WORD)) for i in range(shown)]
    more = ["..."] if ndim > shown else []
    return f"{BY_CODE[dtype].title if dtype in BY_CODE else dtype}[{', '.join(dims + more)}]"


class PublishedCounts:
    """The table of counts of one rank, in rows or elements of the user. See `engine/protocol/count_tables.py`; -1: not
    given."""

    def __init__(self, rank: int, name: int | str, words: np.ndarray, unit: int):
        n = (len(words) - layout.TABLE_ENDS) // layout.TABLE_SIZES
        self.rank, self.name = rank, name
        sizes = words // unit  # -1 stays
        self.counts, self.displs, self.expected, self.places, self.room = (sizes[i * n : (i + 1) * n] for i in range(5))
        self.source, self.result = sizes[layout.TABLE_SIZES * n :][:2].tolist()
        self.dtype = int(words[layout.TABLE_SIZES * n + layout.ELEMENT_TYPE])
        self.what = "rows" if self.dtype >= 0 and self.dtype >> MARK_SHIFT & ROWS else "elements"


def _published(group: Group, turn: int) -> list[np.ndarray]:
    half, length = layout.TABLES + (turn & 1) * layout.table_bytes(group.size), layout.table_words(group.size)
    places = [group.mailbox(rank) + half for rank in range(group.size)]
    return [np.frombuffer(group.arena.read(place, length * WORD), np.int64) for place in places]


def explain_counts(group: Group, operation: str, sequence: int, turn: int, root: int) -> str:
    """Return which entry of the tables does not fit. root: the rank that sends, if only one does; otherwise any
    rank."""
    return explain_tables(_published(group, turn), group.name, operation, sequence, root)


def explain_tables(
    published: Sequence[np.ndarray], name: Callable[[int], int | str], operation: str, sequence: int, root: int
) -> str:
    """Return the same for tables that lie elsewhere, as words by rank. name: returns that of a rank."""
    size = len(published)
    # All ranks with an array have the same unit; a rank without one does not know it
    unit = max(1, *(int(words[layout.TABLE_SIZES * size + layout.COUNT_UNIT]) for words in published))
    tables = [PublishedCounts(rank, name(rank), words, unit) for rank, words in enumerate(published)]
    for table in tables:
        wrong = _wrong_dtype(table, tables[root]) or _wrong_send(table, tables) or _wrong_receive(table, tables)
        if wrong:
            return f"{operation} #{sequence}: {wrong}"
    return f"{operation} #{sequence}: the counts do not fit"


def _wrong_dtype(table: PublishedCounts, root: PublishedCounts) -> str:
    if table.dtype in (-1, root.dtype):
        return ""
    mine, sent = (BY_CODE[t.dtype & 0xFF].name + in_words(t.dtype >> MARK_SHIFT) for t in (table, root))
    return f"rank {table.name} receives into an array of {mine}, but rank {root.name} sends {sent}"


def _wrong_send(table: PublishedCounts, tables: list[PublishedCounts]) -> str:
    for i in map(int, np.flatnonzero(table.counts > 0)):
        count, displacement = table.counts[i], table.displs[i]
        if displacement + count > table.source:
            return (
                f"rank {table.name} sends {count} {table.what} from displacement {displacement} to rank "
                f"{tables[i].name}, but its source has {table.source}"
            )
    return ""


def _wrong_receive(table: PublishedCounts, tables: list[PublishedCounts]) -> str:
    arriving = np.array([t.counts[table.rank] for t in tables])
    places = np.cumsum(arriving) - arriving if (table.places < 0).all() else table.places
    names = [t.name for t in tables]
    for i, count in enumerate(arriving.tolist()):
        if 0 <= table.expected[i] != count:
            return (
                f"rank {table.name} expects {table.expected[i]} {table.what} from rank {names[i]}, which sends {count}"
            )
        if 0 <= table.room[i] < count:
            return (
                f"rank {names[i]} sends {count} {table.what} to rank {table.name}, which has room for {table.room[i]}"
            )
        if count and 0 <= table.result < places[i] + count:
            return (
                f"{count} {table.what} from rank {names[i]} at displacement {places[i]} of rank {table.name} "
                f"do not fit its result of {table.result}"
            )
    taken = sorted((places[i], places[i] + arriving[i], i) for i in np.flatnonzero(arriving > 0))
    for (_, end, a), (begin, _, b) in pairwise(taken):
        if begin < end:
            both = f"ranks {names[a]} and {names[b]}"
            return f"what rank {table.name} receives from {both} overlaps at displacement {begin}"
    return ""
