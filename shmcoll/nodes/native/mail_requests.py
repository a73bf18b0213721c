"""Sends and receives of MPI for messages between two ranks of different nodes: how one is begun, and how long it is
tested. `mail_words.py` says who may do that when."""

from shmcoll.engine.atomics import call, call_long, clock, peek, poke, yield_core
from shmcoll.nodes import waiting
from shmcoll.nodes.native import mail_words as m
from shmcoll.nodes.native.messages import C_INT

GIVEN_UP, COMPLETE, WITHDRAWN, NO_ROOM = range(4)  # how a request has ended, or minus an error of MPI
ALWAYS, UNTIL_SHUT = range(2)  # how a request is tested


def begin(mail, function, address, length, peer, tag, request):
    """Begin to send or receive bytes. Return 0 or minus MPI's error."""
    byte, comm, place = peek(mail + m.BYTE), peek(mail + m.COMM), mail + request
    poke(place, 0)
    return -(call_long(peek(mail + function), address, length, byte, peer, peek(mail + tag), comm, place) & C_INT)


def tested(mail, request, flag, status, limit, how):
    """Test a request until it is complete or a time has passed, or, UNTIL_SHUT, CLOSED is SHUT. Return COMPLETE,
    GIVEN_UP or minus MPI's error."""
    turn, polls = 0, peek(mail + m.POLLS)
    while True:
        error = call(peek(mail + m.TEST), mail + request, mail + flag, mail + status) & C_INT
        if error:
            return -error
        if peek(mail + flag) & C_INT:
            return COMPLETE
        turn += 1
        if (how == UNTIL_SHUT and peek(mail + m.CLOSED) == m.SHUT) or (
            turn % waiting.CLOCK_EVERY == 0 and clock() > limit
        ):
            return GIVEN_UP
        if turn > polls:
            yield_core()


def probe(mail, peer, tag, flag, status):
    """Look once whether a message of a rank has come. Return COMPLETE, GIVEN_UP or minus MPI's error."""
    place, comm = mail + flag, peek(mail + m.COMM)
    error = call_long(peek(mail + m.PROBE), peer, peek(mail + tag), comm, place, mail + status, 0, 0) & C_INT
    if error:
        return -error
    return COMPLETE if peek(place) & C_INT else GIVEN_UP
