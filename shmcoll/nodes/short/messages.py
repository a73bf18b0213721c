"""Messages between leaders, in native code: MPI's functions, called by their addresses.

There are at most one receive and one send for each node at a time. A handle of MPI is an int or a pointer, and fits a
word. From `send` or `receive` on, PENDING of the request is 1, and its memory belongs to MPI; when MPI says that the
request is complete, it becomes 0. `await_messages` waits for all.

Why nobody waits forever. A leader that waits calls a Python function, WATCH, now and then, and has no limit of its own.
WATCH raises if the group has ended, a rank has died, the limit has passed, or a signal handler raises. Then the
requests stay pending, and `state.py` keeps them and their memory.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call, call_long, peek, poke, yield_core
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import cpython as py
from shmcoll.nodes.short.layout import (
    BYTE,
    COMM,
    FAILED,
    FAILED_STATUS,
    FLAG,
    IRECV,
    ISEND,
    NODES,
    PEERS,
    PENDING,
    POLLS,
    REQUESTS,
    STATUS,
    TEST,
    WATCH,
)

TESTS_BETWEEN = 128  # tests between two calls of WATCH
TESTS_BEFORE_SLEEP = 2048  # then WATCH is called after every test, and sleeps
C_INT = 0xFFFFFFFF


def send(state, node, address, length, tag):
    """Begin to send bytes to the leader of a node. Return OK or UNREADABLE."""
    return begin(state, ISEND, 2 * node + 1, node, address, length, tag)


def receive(state, node, address, room, tag):
    """Begin to receive up to `room` bytes from the leader of a node. Return OK or UNREADABLE."""
    return begin(state, IRECV, 2 * node, node, address, room, tag)


def begin(state, function, number, node, address, length, tag):
    request = peek(state + REQUESTS) + number * WORD
    peer, byte, comm = peek(peek(state + PEERS) + node * WORD), peek(state + BYTE), peek(state + COMM)
    poke(request, 0)
    error = call_long(peek(state + function), address, length, byte, peer, peek(state + tag), comm, request) & C_INT
    if error:
        return mpi_failed(state, error)
    poke(peek(state + PENDING) + number * WORD, 1)
    return c.OK


def await_messages(state):
    """Wait until all requests are complete. Return OK, UNREADABLE, or INTERRUPTED with an exception that is pending."""
    count, turn, i, status = 2 * peek(state + NODES), 0, 0, c.OK
    thread = py.release_gil()
    while i < count:
        if peek(peek(state + PENDING) + i * WORD) == 0:
            i += 1
            continue
        error = call(peek(state + TEST), peek(state + REQUESTS) + i * WORD, peek(state + FLAG), peek(state + STATUS))
        if error & C_INT:
            status = mpi_failed(state, error & C_INT)
            break
        if peek(peek(state + FLAG)) & C_INT:
            poke(peek(state + PENDING) + i * WORD, 0)
            i += 1
            continue
        turn += 1
        if turn % TESTS_BETWEEN == 0 or turn > TESTS_BEFORE_SLEEP:
            py.take_gil(thread)
            if py.call_back(peek(state + WATCH), turn):
                return c.INTERRUPTED
            thread = py.release_gil()
        elif turn > peek(state + POLLS):
            yield_core()
    py.take_gil(thread)
    return status


def mpi_failed(state, error):
    poke(state + FAILED, 0)
    poke(state + FAILED_STATUS, error)
    return c.UNREADABLE
