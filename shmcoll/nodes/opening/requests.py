"""Messages between ranks of several nodes, in native code: MPI's functions, called by their addresses.

A lane is a row of requests that are awaited together; LANES of them are on their way at a time at most. A handle of MPI
is an int or a pointer, and fits a word. From `send` or `receive` on, PENDING of the request is not 0, and its memory
belongs to MPI; when MPI says that the request is complete, it becomes 0. `await_messages` waits for all of a lane. If
MPI has refused a message, no other one begins, and `await_messages` of any lane says so.
Messages of one sender with one tag come in the order in which they are sent, and all ranks begin the receives of a call
in that order.

Why nobody waits forever. A rank that waits calls a Python function, WATCH, now and then, and has no limit of its own.
WATCH raises if the group has ended, a rank has died, the limit has passed, or a signal handler raises. Then the
requests stay pending, and `agreement.py` keeps their memory until the end of the job.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call, call_long, peek, poke, yield_core
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import cpython as py
from shmcoll.engine.protocol.profile import counter, end_wait
from shmcoll.engine.protocol.wait import ANYBODY
from shmcoll.nodes.mpi import waiting
from shmcoll.nodes.opening import layout as o

LONGEST = 1 << 30  # bytes of a message: MPI counts in 32 bits, so longer ones are sent in parts
C_INT, C_INT_BITS = 0xFFFFFFFF, 32

PIECES_WORDS = 4  # the lengths of two pieces, two C ints in a word; their places; their datatype
PIECE_PLACES, PIECE_TYPE = WORD, 3 * WORD


def send(state, lane, rank, address, length, tag):
    """Begin to send bytes to a rank of another node."""
    begin(state, o.ISEND, 1 + 2 * rank, lane, address, length, tag)


def receive(state, lane, rank, address, room, tag):
    """Begin to receive up to `room` bytes from a rank of another node."""
    begin(state, o.IRECV, 2 + 2 * rank, lane, address, room, tag)


def send_pieces(state, lane, rank, address, length, apart, apart_length, tag):
    """Begin to send one message of two pieces that are apart, of LONGEST bytes at most.

    MPICH sends them from where they are, if they are long, and without asking TCP's other end for an answer: 64 KiB
    both ways take 27 us, and in one piece 31. An MPI that packs them takes as long as a copy does.
    """
    pieces, error = peek(state + o.PIECES), 0
    made = pieces + PIECE_TYPE
    poke(pieces, length | apart_length << C_INT_BITS)
    poke(pieces + PIECE_PLACES, 0)
    poke(pieces + PIECE_PLACES + WORD, apart - address)
    poke(made, 0)
    if not peek(state + o.IS_REFUSED):
        make = peek(state + o.TYPE_OF_PIECES)
        error = call_long(make, 2, pieces, pieces + PIECE_PLACES, peek(state + o.BYTE), made) & C_INT
        if error == 0:
            error = call(peek(state + o.TYPE_COMMIT), made, 0, 0) & C_INT
    if error:
        refuse(state, error)
    count_bytes(state, lane, length + apart_length)
    begin_part(state, o.ISEND, 1 + 2 * rank, lane, address, 1, peek(made), tag)
    if peek(made):
        call(peek(state + o.TYPE_FREE), made, 0, 0)  # MPI keeps it until the message has been sent


def begin(state, function, pending, lane, address, length, tag):
    count_bytes(state, lane, length)
    while length > 0 and not peek(state + o.IS_REFUSED):
        part = min(length, LONGEST)
        begin_part(state, function, pending, lane, address, part, peek(state + o.BYTE), tag)
        address += part
        length -= part


def count_bytes(state, lane, length):
    begun = peek(state + o.BEGUN) + 2 * lane * WORD
    poke(begun + WORD, peek(begun + WORD) + length)


def begin_part(state, function, pending, lane, address, count, datatype, tag):
    """Begin one send or receive, unless MPI has refused another one."""
    begun, room = peek(state + o.BEGUN) + 2 * lane * WORD, peek(state + o.ROOM)
    peer, comm = peek(peek(state + o.WORLD_RANKS) + (pending - 1) // 2 * WORD), peek(state + o.COMM)
    number = peek(begun)
    place = (lane * room + number) * WORD
    request = peek(state + o.REQUESTS) + place
    if peek(state + o.IS_REFUSED):
        return
    if number == room:
        refuse(state, 0)
        return
    poke(request, 0)
    error = call_long(peek(state + function), address, count, datatype, peer, peek(state + tag), comm, request) & C_INT
    if error:
        refuse(state, error)
        return
    poke(peek(state + o.PENDING) + place, pending)
    poke(begun, number + 1)


def refuse(state, error):
    """Begin no other message, because MPI has refused one."""
    mpi_failed(state, error)
    poke(state + o.IS_REFUSED, 1)


def await_messages(state, lane):
    """Wait until all requests of a lane are complete. Return OK, UNREADABLE, or INTERRUPTED with an exception that is
    pending."""
    begun, first = peek(state + o.BEGUN) + 2 * lane * WORD, lane * peek(state + o.ROOM)
    count, turn, i, status = peek(begun), 0, 0, c.OK
    if peek(state + o.IS_REFUSED):
        return c.UNREADABLE
    if count == 0:
        return status
    poke(state + o.SLEEPS, 0)
    waits_since = counter(peek(state + o.INNER))
    thread = py.release_gil()
    while i < count:
        place = (first + i) * WORD
        if peek(peek(state + o.PENDING) + place) == 0:
            i += 1
            continue
        error = call(
            peek(state + o.TEST), peek(state + o.REQUESTS) + place, peek(state + o.FLAG), peek(state + o.STATUS)
        )
        if error & C_INT:
            status = mpi_failed(state, error & C_INT)
            break
        if peek(peek(state + o.FLAG)) & C_INT:
            poke(peek(state + o.PENDING) + place, 0)
            i += 1
            continue
        turn += 1
        if turn % waiting.WATCH_EVERY == 0 or peek(state + o.SLEEPS):
            py.take_gil(thread)
            if py.call_back(peek(state + o.WATCH), turn):
                return c.INTERRUPTED
            thread = py.release_gil()
        elif turn > peek(state + o.POLLS):
            yield_core()
    end_wait(peek(state + o.INNER), waits_since, ANYBODY)
    py.take_gil(thread)
    if status == c.OK:
        poke(begun, 0)
        poke(begun + WORD, 0)
    return status


def mpi_failed(state, error):
    poke(state + o.FAILED, 0)
    poke(state + o.FAILED_STATUS, error)
    return c.UNREADABLE
