"""Puts and gets of MPI in native code, at memory that this process has mapped, and flushes.

A window has a table in words (`shmcoll/mpi/objects/window_epochs.py` writes it): whether any rank is locked, and for
each rank:

    OPEN        whether it may be accessed now
    IS_LOCKED   whether this rank has locked it
    HERE        where its memory is in this process; 0 if it is not
    LENGTH      how many bytes it has
    UNIT        the bytes of a displacement
"""

from shmcoll.engine.atomics import call_long, copy, fence, peek
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import mpi_table as t
from shmcoll.engine.native.mpi_entry import TO_PYTHON, bytes_of, is_memory, python_function, table
from shmcoll.engine.native.mpi_table import find, int_of

ANY_LOCKED, RANKS = 0, WORD
OPEN, IS_LOCKED, HERE, LENGTH, UNIT = (WORD * i for i in range(5))
RANK_WORDS = 5
RANK = RANK_WORDS * WORD


def put(own, large):
    def native(origin, count, datatype, rank, place, target_count, target_type, win):
        number, there = count if large else int_of(count), target_count if large else int_of(target_count)
        length, target = bytes_of(datatype, number), memory_of(win, rank, place, bytes_of(target_type, there))
        if target == 0 or length != bytes_of(target_type, there) or not is_memory(origin):
            return call_long(python_function(own), origin, count, datatype, rank, place, target_count, target_type, win)
        copy(target, origin, length)
        return 0

    return native


def get(own, large):
    def native(origin, count, datatype, rank, place, target_count, target_type, win):
        number, there = count if large else int_of(count), target_count if large else int_of(target_count)
        length, target = bytes_of(datatype, number), memory_of(win, rank, place, bytes_of(target_type, there))
        if target == 0 or length != bytes_of(target_type, there) or not is_memory(origin):
            return call_long(python_function(own), origin, count, datatype, rank, place, target_count, target_type, win)
        copy(origin, target, length)
        return 0

    return native


def memory_of(win, rank, place, length):
    """Return the address of memory of a rank that may be accessed now; 0 if Python has to see to it."""
    known, peer = find(table(), t.WINS, win), int_of(rank)
    if known == 0 or length <= 0 or not 0 <= peer < peek(known + t.SIZE) or peek(table() + t.DEFERRED):
        return 0
    words = peek(known + t.CONTEXT) + RANKS + peer * RANK
    start = place * peek(words + UNIT)
    if not peek(words + OPEN) or peek(words + HERE) == 0 or not 0 <= start <= peek(words + LENGTH) - length:
        return 0
    return peek(words + HERE) + start


def flush(own, _large):
    def native(rank, win):
        known, peer = find(table(), t.WINS, win), int_of(rank)
        if known == 0 or not 0 <= peer < peek(known + t.SIZE) or peek(table() + t.DEFERRED):
            return call_long(python_function(own), rank, win)
        if not peek(peek(known + t.CONTEXT) + RANKS + peer * RANK + IS_LOCKED):
            return call_long(python_function(own), rank, win)
        fence()
        return 0

    return native


def flush_all(own, _large):
    def native(win):
        known = find(table(), t.WINS, win)
        answer = TO_PYTHON
        if known and not peek(table() + t.DEFERRED) and peek(peek(known + t.CONTEXT) + ANY_LOCKED):
            fence()
            answer = 0
        return call_long(python_function(own), win) if answer == TO_PYTHON else answer

    return native


#: see `mpi_functions.py`
FUNCTIONS = {
    "Put": (put, "", 8),
    "Get": (get, "", 8),
    "Win_flush": (flush, "", 2),
    "Win_flush_local": (flush, "", 2),
    "Win_flush_all": (flush_all, "", 1),
    "Win_flush_local_all": (flush_all, "", 1),
}
WITHOUT_LARGE = {"Win_flush", "Win_flush_local", "Win_flush_all", "Win_flush_local_all"}
