"""The opening of a call with counts, in native code: every rank gets the tables of all ranks, and the sources of those
that are short. Then each rank checks all tables, so all of them reach the same verdict before a byte of a result moves.

The steps are those of `opening.py`, in the same memory and with the same formats. What a rank brings is its row
(`short_tables.py`): its table, and all of its source if that is short and there is room. A longer source goes its own
way, after the opening (`counted.py`).

    1. all_gather in the node     SLOT: the row if it is at most MOST_BROUGHT, else its first word
       gather to the leader       the rows, as long as the longest of the node, if that is more than MOST_BROUGHT
    2. exchange of the leaders    the rows of the node, one after the other; each as long as the longest if that is
                                  more than MOST_BROUGHT
    3. broadcast in the node      TOLD: the verdict, the length of all rows, and all rows by node, each as long as it
                                  is. What is behind AT_ONCE follows in a second broadcast

A rank knows how long the rows of its own node are at most, but those of other nodes only from TOLD. So the first
broadcast has the same length in all calls.

Who writes what: ROW, TABLES and SOURCES are private memory of one rank, like the rest of the state. They are there
until the next opening of the group, which cannot begin between two phases of a call.

Cost: that of an opening of n rows; n² words in a table of n ranks.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.layout import ELEMENT_TYPE, TABLE_ENDS, TABLE_SIZES, WORD
from shmcoll.engine.protocol.count_checks import all_fit, get, put, sent_to, take_counts
from shmcoll.nodes.native import layout as o
from shmcoll.nodes.native.messages import mpi_failed
from shmcoll.nodes.native.opening import (
    broadcast_in_node,
    collect,
    common,
    exchange,
    in_node,
    known,
    member,
    message,
    publish,
    ranks_in_all,
    ranks_of,
)
from shmcoll.nodes.native.short_tables import read_table, row_bytes, set_row_bytes, table_bytes_in, write_table

MOST_IN_ROW = 16 << 10  # bytes of a source: of a longer one, each byte goes only where it is needed
MOST_FOR_ALL = 1 << 62  # MOST_ROW, if every rank needs all of it
AT_ONCE = 4 << 10  # bytes of all rows that the first broadcast has


def open_counts(state, table, source, length, most, sender, receiver):
    """Agree on the call that the slots describe, and exchange the tables. Write into this rank's table what it
    receives. source, length: the bytes that this rank sends. most: of how many of them the opening carries all. sender,
    receiver: see `count_checks.py`.

    Return as `open_rows`, or REFUSED if the counts do not fit.
    """
    bring_row(state, table, source, length if length <= most else 0)
    status = in_node(state, o.GATHER_SLOTS, o.GATHER_SLOTS_CALL)
    if status != c.OK:
        return status
    first, second = common(state), known(state)
    agree = first != 0 and second >= 0
    apart = longest_row(state) if agree else 0
    if apart > peek(state + o.MOST_ROW):
        return mpi_failed(state, 0)
    if apart > o.MOST_BROUGHT:
        status = collect(state, peek(state + o.ROW), apart)
    if peek(state + o.IS_LEADER) and status == c.OK:
        status = exchange_tables(state, first, second, apart)
    if status == c.OK:
        status = publish(state, WORD + AT_ONCE if agree else 0)
    if status == c.OK:
        status = take_rows(state)
    if status != c.OK:
        return status
    size, tables, apart = ranks_in_all(state), peek(state + o.TABLES), table_bytes(state)
    if not all_fit(tables, apart, size, sender, receiver):
        return c.REFUSED
    take_counts(sent_to(tables, size, peek(state + o.RANK)), apart, size, table)
    learn_type(tables, apart, size, table)
    return c.OK


def table_bytes(state):
    return (TABLE_SIZES * ranks_in_all(state) + TABLE_ENDS) * WORD


def carries_tables(state):
    """Return whether an opening has room for the tables of so many ranks."""
    return peek(state + o.ROW) != 0


def table_of(state, rank):
    """Return the address of the table that a rank has brought."""
    return peek(state + o.TABLES) + rank * table_bytes(state)


def source_of(state, rank):
    """Return the address of the source that a rank has brought; 0 if it is sent separately or is empty."""
    return 0 if not carries_tables(state) else peek(peek(state + o.SOURCES) + 2 * rank * WORD)


def source_bytes(state, rank):
    """Return the bytes that are there: those of the source, up to a word."""
    return peek(peek(state + o.SOURCES) + (2 * rank + 1) * WORD)


def bring_row(state, table, source, length):
    """Write this rank's row, and into its slot as much of it as that is for."""
    row = peek(state + o.ROW)
    head = write_table(row, table, ranks_in_all(state))
    brings = length if head + length <= peek(state + o.MOST_ROW) else 0
    used = (head + brings + WORD - 1) // WORD * WORD
    set_row_bytes(row, used)
    if brings > 0:
        copy(row + head, source, brings)
    copy(peek(state + o.SLOT) + o.BROUGHT, row, used if used <= o.MOST_BROUGHT else WORD)


def longest_row(state):
    """Return the length of the longest row of this node."""
    longest = 0
    for i in range(peek(state + o.LOCAL)):
        longest = max(longest, row_bytes(peek(state + o.SLOTS) + i * o.SLOT_BYTES + o.BROUGHT))
    return longest


# --- between the leaders ----------------------------------------------------------------------------------------------


def exchange_tables(state, first, second, apart):
    """Exchange the rows of all nodes, and write TOLD if there are other ranks in this node."""
    local = peek(state + o.LOCAL)
    length = local * apart if apart > o.MOST_BROUGHT else rows_of_slots(state) if apart > 0 else 0
    status = exchange(state, first, second, length)
    told = peek(state + o.TOLD)
    if status != c.OK or peek(told) != 0:
        return status
    place = told + 2 * WORD
    for other in range(peek(state + o.NODES)):
        row = message(state, other) + o.HEAD
        apart, end = apart_in_message(state, other), row + peek(message(state, other) + 2 * WORD)
        for _ in range(ranks_of(state, other)):
            if not is_row(state, row, apart if apart else end - row):
                return mpi_failed(state, 0)
            if local > 1:
                copy(place, row, row_bytes(row))
                place += row_bytes(row)
            row += apart if apart else row_bytes(row)
    poke(told + WORD, place - told - 2 * WORD)
    return c.OK


def rows_of_slots(state):
    """Write the rows that are in the slots into the message of this node, and return their length."""
    begin = message(state, peek(state + o.NODE)) + o.HEAD
    place = begin
    for i in range(peek(state + o.LOCAL)):
        row = peek(state + o.SLOTS) + i * o.SLOT_BYTES + o.BROUGHT
        copy(place, row, row_bytes(row))
        place += row_bytes(row)
    return place - begin


def apart_in_message(state, node):
    """Return the bytes from one row to the next in the message of a node; 0 if each has its own length."""
    apart = peek(message(state, node) + 2 * WORD) // ranks_of(state, node)
    return apart if apart > o.MOST_BROUGHT else 0


def is_row(state, row, room):
    """Return whether a row has a table and ends within its room."""
    if room < WORD or not WORD <= row_bytes(row) <= room:
        return 0
    return table_bytes_in(row, ranks_in_all(state)) <= row_bytes(row)


# --- what all ranks have brought --------------------------------------------------------------------------------------


def take_rows(state):
    """Copy the tables of all ranks to TABLES, and note where their sources are. Get the rest of the rows before."""
    told, alone, status = peek(state + o.TOLD), peek(state + o.LOCAL) == 1, c.OK
    rest = peek(told + WORD) - AT_ONCE
    if not alone and rest > 0:
        status = broadcast_in_node(state, told + 2 * WORD + AT_ONCE, rest, 0)
    place = told + 2 * WORD
    for node in range(peek(state + o.NODES) if status == c.OK else 0):
        if alone:
            place = message(state, node) + o.HEAD
        apart = apart_in_message(state, node) if alone else 0
        for i in range(ranks_of(state, node)):
            take_row(state, member(state, node, i), place)
            place += apart if apart else row_bytes(place)
    return status


def take_row(state, rank, row):
    size, sources = ranks_in_all(state), peek(state + o.SOURCES) + 2 * rank * WORD
    head = read_table(row, table_of(state, rank), size)
    poke(sources, row + head if row_bytes(row) > head else 0)
    poke(sources + WORD, row_bytes(row) - head)


def learn_type(tables, apart, size, table):
    """Write the dtype of what arrives into the table of a rank that does not know it. Its unit is not for this
    table, which later calls use again."""
    for rank in range(size if get(table, size, TABLE_SIZES, ELEMENT_TYPE) < 0 else 0):
        found = get(tables + rank * apart, size, TABLE_SIZES, ELEMENT_TYPE)
        if found >= 0:
            put(table, size, TABLE_SIZES, ELEMENT_TYPE, found)
