"""Sends and receives of MPI for messages between two ranks of different nodes: how one is begun, and how long it is
tested. `message_words.py` says who may do that when."""

from shmcoll.engine.atomics import call, call_long, clock, peek, poke, yield_core
from shmcoll.nodes.mpi import waiting
from shmcoll.nodes.opening.requests import C_INT
from shmcoll.nodes.point_to_point import message_words as m

GIVEN_UP, COMPLETE, WITHDRAWN, NO_ROOM = range(4)  # how a request has ended, or minus an error of MPI
ALWAYS, UNTIL_SHUT = range(2)  # how a request is tested


def begin(words, function, address, length, peer, tag, request):
    """Begin to send or receive bytes. Return 0 or minus MPI's error."""
    byte, comm, place = peek(words + m.BYTE), peek(words + m.COMM), words + request
    poke(place, 0)
    return -(call_long(peek(words + function), address, length, byte, peer, peek(words + tag), comm, place) & C_INT)


def tested(words, request, flag, status, limit, how):
    """Test a request until it is complete or a time has passed, or, UNTIL_SHUT, CLOSED is SHUT. Return COMPLETE,
    GIVEN_UP or minus MPI's error."""
    turn, polls = 0, peek(words + m.POLLS)
    while True:
        error = call(peek(words + m.TEST), words + request, words + flag, words + status) & C_INT
        if error:
            return -error
        if peek(words + flag) & C_INT:
            return COMPLETE
        turn += 1
        if (how == UNTIL_SHUT and peek(words + m.CLOSED) == m.SHUT) or (
            turn % waiting.CLOCK_EVERY == 0 and clock() > limit
        ):
            return GIVEN_UP
        if turn > polls:
            yield_core()


def probe(words, peer, tag, flag, status):
    """Look once whether a message of a rank has come. Return COMPLETE, GIVEN_UP or minus MPI's error."""
    place, comm = words + flag, peek(words + m.COMM)
    error = call_long(peek(words + m.PROBE), peer, peek(words + tag), comm, place, words + status, 0, 0) & C_INT
    if error:
        return -error
    return COMPLETE if peek(place) & C_INT else GIVEN_UP
