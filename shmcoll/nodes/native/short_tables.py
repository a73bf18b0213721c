"""A row of `counted_opening.py`: a table of counts (`engine/protocol/count_tables.py`) without what can be left out,
and what follows it.

The first word has the bytes of the whole row, the form of each row of the table, and which of its last words follow.
Then come the words that are left of the rows, and the last words. Forms:

    GIVEN       all words of the row
    NOT_GIVEN   none: all are -1
    PACKED      none: displacements of blocks that lie one after the other, as SEND_COUNTS says
    SAME        one: all are equal
    ONE         two, a rank and its word: all others are 0
    ONE_GIVEN   the same: all others are -1

The last words are left out if SOURCE_SIZE is where the last block ends that is sent, RESULT_SIZE is -1, and COUNT_UNIT
is at most 1. ELEMENT_TYPE has its place in the first word if it has no mark.

So what two ranks bring to a call of few bytes fits into a message of 128 bytes: over TCP, MPICH needs 8 us for that on
the machine of `docs/performance.md`, and 15 for a longer one; with two ranks for each core 25 and 45.
"""

from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.kernels.element_marks import MARK_SHIFT
from shmcoll.engine.layout import (
    COUNT_UNIT,
    ELEMENT_TYPE,
    SEND_COUNTS,
    SEND_DISPLS,
    SOURCE_SIZE,
    TABLE_ENDS,
    TABLE_SIZES,
    WORD,
)
from shmcoll.engine.protocol.count_checks import get, put

GIVEN, NOT_GIVEN, PACKED, SAME, ONE, ONE_GIVEN = range(6)
LENGTH_BITS, FORM_BITS = 24, 3
ENDS_SHIFT = LENGTH_BITS + FORM_BITS * TABLE_SIZES  # a bit for each of the last words
TYPE_SHIFT = ENDS_SHIFT + TABLE_ENDS  # 1 + the dtype code


def row_bytes(row):
    """Return the bytes of a row, with what follows the table."""
    return peek(row) & ((1 << LENGTH_BITS) - 1)


def set_row_bytes(row, length):
    poke(row, peek(row) >> LENGTH_BITS << LENGTH_BITS | length)


def write_table(row, table, size):
    """Write a table for so many ranks, and return its bytes in the row."""
    head, place = 0, row + WORD
    for kind in range(TABLE_SIZES):
        form = form_of(table, size, kind)
        head |= form << (LENGTH_BITS + FORM_BITS * kind)
        if form >= ONE:
            poke(place, last_unlike(table, size, kind, others(form)))
            poke(place + WORD, get(table, size, kind, peek(place)))
        for i in range(words_of(form, size) if form < ONE else 0):
            poke(place + i * WORD, get(table, size, kind, i))
        place += words_of(form, size) * WORD
    for i in range(TABLE_ENDS):
        value = get(table, size, TABLE_SIZES, i)
        if i == ELEMENT_TYPE and value < 1 << MARK_SHIFT:
            head |= (1 + value) << TYPE_SHIFT
        elif value != usual_end(table, size, i) and (i != COUNT_UNIT or value > 1):
            head |= 1 << (ENDS_SHIFT + i)
            poke(place, value)
            place += WORD
    poke(row, head)
    return place - row


def read_table(row, table, size):
    """Write the table of a row, and return its bytes in the row."""
    place = row + WORD
    for kind in range(TABLE_SIZES):
        form, packed = form_at(row, kind), 0
        for i in range(size):
            if form == GIVEN:
                put(table, size, kind, i, peek(place + i * WORD))
            elif form == SAME:
                put(table, size, kind, i, peek(place))
            elif form >= ONE:
                put(table, size, kind, i, peek(place + WORD) if i == peek(place) else others(form))
            else:
                put(table, size, kind, i, -1 if form == NOT_GIVEN else packed)
            packed += get(table, size, SEND_COUNTS, i)
        place += words_of(form, size) * WORD
    for i in range(TABLE_ENDS):
        if end_follows(row, i):
            put(table, size, TABLE_SIZES, i, peek(place))
            place += WORD
        elif i == ELEMENT_TYPE:
            put(table, size, TABLE_SIZES, i, (peek(row) >> TYPE_SHIFT) - 1)
        else:
            put(table, size, TABLE_SIZES, i, usual_end(table, size, i))
    return place - row


def table_bytes_in(row, size):
    """Return the bytes of the table in a row, by its first word."""
    words = 1
    for kind in range(TABLE_SIZES):
        words += words_of(form_at(row, kind), size)
    for i in range(TABLE_ENDS):
        words += end_follows(row, i)
    return words * WORD


def form_of(table, size, kind):
    """Return the shortest form of a row of a table."""
    first, same, is_packed, packed, filled, given = get(table, size, kind, 0), 1, kind != SEND_COUNTS, 0, 0, 0
    for i in range(size):
        value = get(table, size, kind, i)
        filled += value != 0
        given += value != -1
        if value != first:
            same = 0
        if value != packed:
            is_packed = 0
        packed += get(table, size, SEND_COUNTS, i)
    if same and first == -1:
        return NOT_GIVEN
    if is_packed:
        return PACKED
    if same:
        return SAME
    if size > 2 and (filled == 1 or given == 1):
        return ONE if filled == 1 else ONE_GIVEN
    return GIVEN


def others(form):
    return 0 if form == ONE else -1


def last_unlike(table, size, kind, value):
    """Return the last rank with another word."""
    found = 0
    for i in range(size):
        if get(table, size, kind, i) != value:
            found = i
    return found


def form_at(row, kind):
    return (peek(row) >> (LENGTH_BITS + FORM_BITS * kind)) & ((1 << FORM_BITS) - 1)


def words_of(form, size):
    """Return how many words of a row of a table follow."""
    if form == GIVEN:
        return size
    return 1 if form == SAME else 2 if form >= ONE else 0


def end_follows(row, i):
    return (peek(row) >> (ENDS_SHIFT + i)) & 1


def usual_end(table, size, i):
    """Return what one of the last words is if it is left out."""
    if i != SOURCE_SIZE:
        return 1 if i == COUNT_UNIT else -1
    end = 0
    for rank in range(size):
        count = get(table, size, SEND_COUNTS, rank)
        end = max(end, count + get(table, size, SEND_DISPLS, rank) if count > 0 else 0)
    return end
