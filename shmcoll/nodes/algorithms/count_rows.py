"""The opening of a call with counts: every rank gets the tables of all ranks, and the sources of those that are short.
Then each rank checks all tables, so all of them reach the same verdict before a byte of a result moves.

What a rank contributes (`opening.py`) is its row: its table (`engine/protocol/count_tables.py`), and all of its source
if that is short and there is room. A longer source is sent separately, after the opening (`counted.py`). Each word of
a table is stored in as few bytes as it needs, as LEB128, signed words in zigzag order: most take one.

Cost: that of an opening of n rows; n² words in tables of n ranks. So the rows of a short call fit into a message of 128
bytes. Over TCP, MPICH needs less time for that: between two ranks, all_to_all_v of 8 bytes takes 5.7 us instead of the
9.7 that it takes with a whole word for each. Six forms that left out rows of a table took 5.6.

Who writes what: TABLES and SOURCES are private memory of one rank, like the rest of the state. They are there until the
next opening of the group, which cannot begin between two phases of a call.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.layout import ELEMENT_TYPE, TABLE_SIZES, WORD, table_words
from shmcoll.engine.protocol.count_checks import all_fit, get, put, sent_to, take_counts
from shmcoll.engine.protocol.reduction import ALL
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.opening import SELF_SIZED, block_behind, first_block, open_rows, row_place, sends_apart
from shmcoll.nodes.opening.ranks import member, ranks_in_all, ranks_of
from shmcoll.nodes.opening.requests import mpi_failed

MOST_IN_ROW = 16 << 10  # bytes of a source: of a longer one, each byte goes only where it is needed
MOST_FOR_ALL = 1 << 62  # MOST_ROW, if every rank needs all of it

BYTE_BITS, GROUP_BITS, WORD_BITS = 8, 7, 64
MOST_BYTES = 10  # of a word
MORE = 1 << GROUP_BITS  # in a byte of which another one follows
GROUP = MORE - 1


def open_counts(state, table, source, length, most, sender, receiver):
    """Agree on the call that the slots describe, and exchange the tables. Write into this rank's table what it
    receives. source, length: the bytes that this rank sends. most: of how many of them the opening carries all. sender,
    receiver: see `count_checks.py`.

    Return as `open_rows`, or REFUSED if the counts do not fit.
    """
    contribute_row(state, table, source, length if length <= most else 0)
    status = open_rows(state, row_place(state), SELF_SIZED, ALL)
    if status == c.OK:
        status = read_rows(state)
    if status != c.OK:
        return status
    size, tables, stride = ranks_in_all(state), peek(state + o.TABLES), table_bytes(state)
    if not all_fit(tables, stride, size, sender, receiver):
        return c.REFUSED
    take_counts(sent_to(tables, size, peek(state + o.RANK)), stride, size, table)
    learn_type(tables, stride, size, table)
    return c.OK


def table_bytes(state):
    return table_words(ranks_in_all(state)) * WORD


def tables_fit(state):
    """Return whether an opening has room for the tables of so many ranks."""
    return peek(state + o.TABLES) != 0


def table_of(state, rank):
    """Return the address of the table of a rank."""
    return peek(state + o.TABLES) + rank * table_bytes(state)


def source_of(state, rank):
    """Return the address of the source that a rank has contributed; 0 if it is sent separately or is empty."""
    return 0 if not tables_fit(state) else peek(peek(state + o.SOURCES) + 2 * rank * WORD)


def source_bytes(state, rank):
    """Return the bytes that are there: those of the source, up to a word."""
    return peek(peek(state + o.SOURCES) + (2 * rank + 1) * WORD)


def contribute_row(state, table, source, length):
    """Write this rank's row, and into its slot as much of it as that is for."""
    row, slot = row_place(state), peek(state + o.SLOT) + o.SLOT_DATA
    head = write_table(row, table, ranks_in_all(state))
    sent = length if head + length <= peek(state + o.MOST_ROW) else 0
    used = (head + sent + WORD - 1) // WORD * WORD
    poke(row, used)
    if sent > 0 and (sent % WORD or not sends_apart(state, source, sent)):
        copy(row + head, source, sent)
    copy(slot, row, used if used <= o.MOST_IN_SLOT else WORD)


def read_rows(state):
    """Copy the tables of all ranks to TABLES, and note where their sources are."""
    block = first_block(state)
    for node in range(peek(state + o.NODES)):
        stride = peek(block) // ranks_of(state, node)
        for i in range(ranks_of(state, node)):
            rank, row = member(state, node, i), block + WORD + i * stride
            head = read_table(row, table_of(state, rank), ranks_in_all(state))
            if head == 0:
                return mpi_failed(state, 0)
            sources = peek(state + o.SOURCES) + 2 * rank * WORD
            poke(sources, source_in(state, rank, row + head) if peek(row) > head else 0)
            poke(sources + WORD, peek(row) - head)
        block = block_behind(state, node, block)
    return c.OK


def source_in(state, rank, place):
    """Return where the source of a rank is whose row has a place for it: this rank's may not have been copied there."""
    is_apart = rank == peek(state + o.RANK) and peek(state + o.APART_BYTES)
    return peek(state + o.APART) if is_apart else place


def learn_type(tables, stride, size, table):
    """Write the dtype of what arrives into the table of a rank that does not know it. Its unit is not for this
    table, which later calls use again."""
    for rank in range(size if get(table, size, TABLE_SIZES, ELEMENT_TYPE) < 0 else 0):
        found = get(tables + rank * stride, size, TABLE_SIZES, ELEMENT_TYPE)
        if found >= 0:
            put(table, size, TABLE_SIZES, ELEMENT_TYPE, found)


# --- a table in a row -------------------------------------------------------------------------------------------------


def write_table(row, table, size):
    """Write a table for so many ranks behind the first word of a row, and return the bytes of both, up to a word."""
    count = WORD
    for i in range(table_words(size)):
        value = peek(table + i * WORD)
        rest = value << 1 ^ value >> (WORD_BITS - 1)
        while rest >> GROUP_BITS:
            count = write_byte(row, count, rest & GROUP | MORE)
            rest = rest >> GROUP_BITS & ((1 << (WORD_BITS - GROUP_BITS)) - 1)
        count = write_byte(row, count, rest)
    return (count + WORD - 1) // WORD * WORD


def read_table(row, table, size):
    """Write the table of a row, and return the bytes of the first word and the table, up to a word; 0 if the row ends
    within it."""
    count, room = WORD, peek(row)
    for i in range(table_words(size)):
        value, shift, byte = 0, 0, MORE
        while byte & MORE and shift < WORD_BITS:
            if count >= room:
                return 0
            byte = peek(row + count // WORD * WORD) >> count % WORD * BYTE_BITS
            value |= (byte & GROUP) << shift
            shift += GROUP_BITS
            count += 1
        poke(table + i * WORD, value >> 1 & ((1 << (WORD_BITS - 1)) - 1) ^ -(value & 1))
    return (count + WORD - 1) // WORD * WORD


def write_byte(address, i, value):
    """Write byte i at an address, the bytes before it in its word having been written. Return i + 1."""
    word, shift = address + i // WORD * WORD, i % WORD * BYTE_BITS
    poke(word, value << shift | (peek(word) if shift else 0))
    return i + 1
