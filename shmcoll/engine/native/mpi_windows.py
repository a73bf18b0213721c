"""Puts, gets and accumulates of MPI in native code, and flushes.

A window has a table in words (`shmcoll/mpi/objects/window_epochs.py` writes it): whether any rank is locked, the
address of PIECE bytes for this rank, and for each rank:

    OPEN        whether it may be accessed now
    IS_LOCKED   whether this rank has locked it
    HERE        where its memory is in this process; 0 if it is not: the kernel reads and writes it
    PID, THERE  its process, and where its memory is there
    LENGTH      how many bytes it has
    UNIT        the bytes of a displacement
    TURN        the words of the lock that a rank takes which accumulates there (`engine/memory/rank_locks.py`)

An accumulate holds the GIL from before it takes the lock until after it has given it back. So it is alone among the
threads of this rank, if the rank's word of the lock is 0: Python changes that word with the GIL, too. It waits for
other ranks for SOON looks. Then Python makes the call, and waits without the GIL. Python makes all calls of more than
MOST_BYTES, which would keep the GIL for long, and the first one of each operator and dtype, to load the kernel. It
makes calls again that the kernel of the system has refused, to say why.
"""

from shmcoll.engine.atomics import call_kernel, call_long, copy, fence, load, peek, peek_int, read_memory, write_memory
from shmcoll.engine.kernels.dtypes import REDUCTION_CODES
from shmcoll.engine.kernels.kernels import JOIN
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.rank_locks import give, take_soon
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native import mpi_table as t
from shmcoll.engine.native.mpi_collectives import typed
from shmcoll.engine.native.mpi_entry import TO_PYTHON, bytes_of, is_memory, python_function, table
from shmcoll.engine.native.mpi_table import find, int_of
from shmcoll.engine.native.tables import KERNELS, dtype_in, item_in

ANY_LOCKED, SCRATCH, RANKS = 0, WORD, 2 * WORD
OPEN, IS_LOCKED, HERE, PID, THERE, LENGTH, UNIT, TURN = (WORD * i for i in range(8))
RANK_WORDS = 8
RANK = RANK_WORDS * WORD

PIECE = 32 << 10  # stays in the cache of a core
MOST_BYTES = 1 << 20
SOON = 400


def make_access(move):
    """Return what makes the function of a put or a get. move: `write` or `read`."""

    def make(own, large):
        def native(origin, count, datatype, rank, place, target_count, target_type, win):
            number, there = count if large else int_of(count), target_count if large else int_of(target_count)
            length = bytes_of(datatype, number)
            at = start_of(win, rank, place, bytes_of(target_type, there))
            is_possible = at >= 0 and length == bytes_of(target_type, there) and is_memory(origin)
            if is_possible and move(words_of(find(table(), t.WINS, win), rank), at, origin, length):
                return 0
            return call_long(python_function(own), origin, count, datatype, rank, place, target_count, target_type, win)

        return native

    return make


def start_of(win, rank, place, length):
    """Return how many bytes behind the beginning of a rank's memory an access begins; -1 if Python has to see to it,
    because it may not be made now, or not of so many bytes."""
    known, peer = find(table(), t.WINS, win), int_of(rank)
    if known == 0 or length <= 0 or not 0 <= peer < peek(known + t.SIZE) or peek(table() + t.DEFERRED):
        return -1
    words = words_of(known, rank)
    start = place * peek(words + UNIT)
    if not peek(words + OPEN) or (peek(words + HERE) == 0 and peek(words + PID) == 0):
        return -1
    return start if 0 <= start <= peek(words + LENGTH) - length else -1


def words_of(known, rank):
    """Return where the words of a rank are in the table of a window. known: the row of the window."""
    return peek(known + t.CONTEXT) + RANKS + int_of(rank) * RANK


def read(words, at, target, length):
    """Copy bytes from the memory of a rank. Return whether that was possible."""
    if peek(words + HERE):
        copy(target, peek(words + HERE) + at, length)
        return True
    return read_memory(peek(words + PID), target, peek(words + THERE) + at, length) == length


def write(words, at, source, length):
    """Copy bytes into the memory of a rank. Return whether that was possible."""
    if peek(words + HERE):
        copy(peek(words + HERE) + at, source, length)
        return True
    return write_memory(peek(words + PID), peek(words + THERE) + at, source, length) == length


def accumulate(own, large):
    def native(origin, count, datatype, rank, place, target_count, target_type, op, win):
        number, there = count if large else int_of(count), target_count if large else int_of(target_count)
        answer = combine(origin, bytes_of(datatype, number), 0, 0, rank, place, there, target_type, op, win)
        if answer == TO_PYTHON:
            return call_long(
                python_function(own), origin, count, datatype, rank, place, target_count, target_type, op, win
            )
        return answer

    return native


def get_accumulate(own, large):
    def native(
        origin, count, datatype, result, result_count, result_type, rank, place, target_count, target_type, op, win
    ):
        number, there = count if large else int_of(count), target_count if large else int_of(target_count)
        given, room = bytes_of(datatype, number), bytes_of(result_type, result_count if large else int_of(result_count))
        answer = TO_PYTHON
        if is_memory(result):
            answer = combine(origin, given, result, room, rank, place, there, target_type, op, win)
        if answer == TO_PYTHON:
            return call_long(
                python_function(own), origin, count, datatype, result, result_count, result_type, rank, place,
                target_count, target_type, op, win,
            )  # fmt: skip
        return answer

    return native


def fetch_and_op(own, _large):
    def native(origin, result, datatype, rank, place, op, win):
        length, answer = bytes_of(datatype, 1), TO_PYTHON
        if is_memory(result):
            answer = combine(origin, length, result, length, rank, place, 1, datatype, op, win)
        if answer == TO_PYTHON:
            return call_long(python_function(own), origin, result, datatype, rank, place, op, win)
        return answer

    return native


def compare_and_swap(own, _large):
    def native(origin, compared, result, datatype, rank, place, win):
        length = bytes_of(datatype, 1)
        at = start_of(win, rank, place, length) if length == WORD or length == WORD // 2 else -1
        is_done = False
        if at >= 0 and is_memory(origin) and is_memory(compared) and is_memory(result):
            known, gil = find(table(), t.WINS, win), py.ensure_gil()
            words, old = words_of(known, rank), scratch_of(known)
            if take_alone(known, words):
                is_done = read(words, at, old, length)
                if is_done and is_same(old, compared, length):
                    is_done = write(words, at, origin, length)
                if is_done:
                    copy(result, old, length)
                give_alone(known, words)
            py.leave_gil(gil)
        if not is_done:
            return call_long(python_function(own), origin, compared, result, datatype, rank, place, win)
        return 0

    return native


def combine(origin, given, result, room, rank, place, there, datatype, op, win):
    """Combine elements of a target with those of the origin, and store in `result` what was there before, unless it is
    0. Return 0, or TO_PYTHON.

    Args:
        given, room: the bytes of the origin and of the result.
        there, datatype: how many elements of the target, and their type.
    """
    length, operator = bytes_of(datatype, there), find(table(), t.OPERATORS, op)
    at = start_of(win, rank, place, length)
    if at < 0 or operator == 0 or length > MOST_BYTES:
        return TO_PYTHON
    known, code = find(table(), t.WINS, win), peek(operator + t.REDUCTION)
    words, kernel, item = words_of(known, rank), 0, 1
    target = peek(words + HERE) + at if peek(words + HERE) else scratch_of(known)
    if result != 0 and (room != length or not are_apart(result, target, length)):
        return TO_PYTHON
    if code != t.NO_OP or result == 0:
        if given != length or not are_apart(origin, target, length):
            return TO_PYTHON
        if result != 0 and not are_apart(origin, result, length):
            return TO_PYTHON
    if code >= 0:
        word, _ = typed(datatype, op, there, origin, target)
        if word == 0:
            return TO_PYTHON
        kernel = peek(peek(known + t.MESSAGES) + KERNELS + (dtype_in(word) * REDUCTION_CODES + code) * WORD)
        item = item_in(word)
        if kernel == 0:
            return TO_PYTHON
    gil, is_done = py.ensure_gil(), False
    if take_alone(known, words):
        is_done = result == 0 or read(words, at, result, length)
        if is_done and code == t.REPLACE:
            is_done = write(words, at, origin, length)
        elif is_done and code >= 0 and peek(words + HERE):
            call_kernel(kernel, JOIN, target, origin, target, length // item, 1)
        elif is_done and code >= 0:
            is_done = combine_far(words, at, origin, length, kernel, item, target)
        give_alone(known, words)
    py.leave_gil(gil)
    return 0 if is_done else TO_PYTHON


def combine_far(words, at, origin, length, kernel, item, piece):
    """Combine elements in memory that is not here, a piece at a time. Return whether that was possible."""
    done = 0
    while done < length:
        part = min(PIECE, length - done)
        if not read(words, at + done, piece, part):
            return False
        call_kernel(kernel, JOIN, piece, origin + done, piece, part // item, 1)
        if not write(words, at + done, piece, part):
            return False
        done += part
    return True


def scratch_of(known):
    """Return the address of PIECE bytes that the thread with the GIL may use."""
    return peek(peek(known + t.CONTEXT) + SCRATCH)


def take_alone(known, words):
    """Take the lock for accumulates at a rank, if no thread of this rank has it or wants it, and other ranks let this
    one have it soon. Return whether it has been taken. With the GIL."""
    lock, mine = peek(words + TURN), peek(known + t.RANK)
    return load(lock + mine * WORD) == 0 and take_soon(lock, peek(known + t.SIZE), mine, SOON)


def give_alone(known, words):
    """Give it back."""
    give(peek(words + TURN), peek(known + t.RANK))


def are_apart(one, other, length):
    """Return whether both are addresses of memory, and so many bytes from there on are not the same memory."""
    return is_memory(one) and is_memory(other) and (one + length <= other or other + length <= one)


def is_same(one, other, length):
    """Return whether 4 or 8 bytes are equal."""
    return peek(one) == peek(other) if length == WORD else peek_int(one) == peek_int(other)


def flush(own, _large):
    def native(rank, win):
        known, peer = find(table(), t.WINS, win), int_of(rank)
        if known == 0 or not 0 <= peer < peek(known + t.SIZE) or peek(table() + t.DEFERRED):
            return call_long(python_function(own), rank, win)
        if not peek(words_of(known, rank) + IS_LOCKED):
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
    "Put": (make_access(write), "", 8),
    "Get": (make_access(read), "", 8),
    "Accumulate": (accumulate, "", 9),
    "Get_accumulate": (get_accumulate, "", 12),
    "Fetch_and_op": (fetch_and_op, "", 7),
    "Compare_and_swap": (compare_and_swap, "", 7),
    "Win_flush": (flush, "", 2),
    "Win_flush_local": (flush, "", 2),
    "Win_flush_all": (flush_all, "", 1),
    "Win_flush_local_all": (flush_all, "", 1),
}
WITHOUT_LARGE = {
    "Fetch_and_op",
    "Compare_and_swap",
    "Win_flush",
    "Win_flush_local",
    "Win_flush_all",
    "Win_flush_local_all",
}
