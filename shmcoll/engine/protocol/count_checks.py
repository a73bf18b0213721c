"""The check of the tables of counts of all ranks, wherever they are, and what a rank reads from them.

`count_tables.py` has the words of a table. Here `tables` is the address of that of rank 0, and `apart` the bytes from
one to the next. Sender and receiver are the only rank that sends or receives, or ANYONE. Each rank checks all that all
ranks send and receive, so all of them reach the same verdict.

Cost: n² look-ups for n ranks, and n³ if blocks do not ascend in a result.
"""

from shmcoll.engine import layout
from shmcoll.engine.atomics import load, store
from shmcoll.engine.layout import WORD

ANYONE = -1  # instead of the only rank that sends, or the only one that receives


def all_fit(tables, apart, size, sender, receiver):
    """Return whether everything that `sender` sends to `receiver` fits."""
    for rank in range(first(sender), last(sender, size) + 1):
        if not sends_fit(tables + rank * apart, size, receiver):
            return 0
    for rank in range(first(receiver), last(receiver, size) + 1):
        if not receives_fit(tables + rank * apart, sent_to(tables, size, rank), apart, size, sender):
            return 0
    return 1


def sends_fit(rows, size, receiver):
    """Return whether everything that a rank with this table sends to `receiver` is within its source."""
    total = get(rows, size, layout.TABLE_SIZES, layout.SOURCE_SIZE)
    for rank in range(first(receiver), last(receiver, size) + 1):
        count, start = get(rows, size, layout.SEND_COUNTS, rank), get(rows, size, layout.SEND_DISPLS, rank)
        if count < 0 or (count > 0 and (start < 0 or count > total or start > total - count)):
            return 0
    return 1


def receives_fit(rows, counts, apart, size, sender):
    """Return whether the blocks that a rank with the table `rows` gets from `sender` have the expected counts, fit, and
    do not overlap. counts: the address of what rank 0 sends to it, `apart` bytes before that of rank 1."""
    total = get(rows, size, layout.TABLE_SIZES, layout.RESULT_SIZE)
    packed, end, ascending = 0, 0, 1
    for rank in range(first(sender), last(sender, size) + 1):
        count = load(counts + rank * apart)
        expected, room = get(rows, size, layout.RECV_COUNTS, rank), get(rows, size, layout.RECV_ROOM, rank)
        if (expected >= 0 and expected != count) or (room >= 0 and count > room):
            return 0
        displacement = get(rows, size, layout.RECV_DISPLS, rank)
        start = packed if displacement < 0 else displacement
        packed += count
        if count == 0:
            continue
        if total >= 0 and (count > total or start > total - count):
            return 0
        if start < end:
            ascending = 0
        end = start + count
    return 1 if ascending else are_disjoint(rows, counts, apart, size)


def are_disjoint(rows, counts, apart, size):
    """Return whether no two blocks overlap in a result, for displacements in any order."""
    for a in range(size):
        a_count = load(counts + a * apart)
        a_start = get(rows, size, layout.RECV_DISPLS, a)
        for b in range(a):
            b_count = load(counts + b * apart)
            b_start = get(rows, size, layout.RECV_DISPLS, b)
            if a_count > 0 and b_count > 0 and a_start < b_start + b_count and b_start < a_start + a_count:
                return 0
    return 1


def take_counts(counts, apart, size, own):
    """Write into this rank's own table what it receives, and where that goes if it is packed. counts, apart: see
    `receives_fit`."""
    packed = 0
    for rank in range(size):
        count = load(counts + rank * apart)
        put(own, size, layout.RECV_COUNTS, rank, count)
        if get(own, size, layout.RECV_DISPLS, rank) < 0:
            put(own, size, layout.RECV_DISPLS, rank, packed)
        packed += count


def has_room_for_all(own, size):
    """Return whether all that this rank receives is within its result, by its own copy of the counts. The check before
    this one read the counts where their owners can still change them."""
    total = get(own, size, layout.TABLE_SIZES, layout.RESULT_SIZE)
    for rank in range(size):
        count, start = get(own, size, layout.RECV_COUNTS, rank), get(own, size, layout.RECV_DISPLS, rank)
        if count < 0 or start < 0 or (total >= 0 and count > 0 and (count > total or start > total - count)):
            return 0
    return 1


def sent_to(tables, size, rank):
    """Return the address of what rank 0 sends to a rank; that of rank 1 is a table behind it."""
    return tables + (layout.SEND_COUNTS * size + rank) * WORD


def get(rows, size, row, i):
    return load(rows + (row * size + i) * WORD)


def put(rows, size, row, i, value):
    store(rows + (row * size + i) * WORD, value)


def first(rank):
    return 0 if rank == ANYONE else rank


def last(rank, size):
    return size - 1 if rank == ANYONE else rank
