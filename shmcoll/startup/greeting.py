"""What the roots of two groups say to each other over a connection, before the groups join a job: see `beside.py`.

    both    a hello: its length, and JSON. In place of one, why nobody will come
    both    READY, when the other's hello has been read

A root goes on when it has read READY. Until then it looks, in each SLICE, at what its caller watches, and it has a
limit of time. What is not from here is taken for the end of the connection.
"""

import contextlib
import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from shmcoll.engine.system import connections
from shmcoll.engine.system.handlers import ignored
from shmcoll.engine.system.text import to_bytes
from shmcoll.startup import machine

SLICE = 0.02  # seconds between two looks
HEARING = 10.0  # seconds that one who has connected may take to say hello

_HEAD = struct.Struct("<8sQ")
_MAGIC = b"shmcollB"
_LONGEST = 1 << 24  # bytes of a hello
_READY = b"+"

Look = Callable[[], None]
Hello = dict[str, Any]


class Process(NamedTuple):
    """Which process it is. job: the nonce of the job that it has joined first, and its rank there."""

    job: str
    rank: int
    pid: int
    start: int


def hello(members: Sequence[Process], place: str = "") -> Hello:
    """Return what a root says to the other one. members: the processes of its group. place: as in `connect`."""
    said = {"token": place + os.urandom(16).hex(), "machine": machine.identity(), "members": members}
    read: Hello = json.loads(json.dumps(said))  # as the other side will read it
    return read


def greet(line: socket.socket, place: str, members: Sequence[Process], end: float, look: Look) -> list[Hello]:
    """Return the own hello and the other's, when both roots go on. Raises `OSError` if the other one does not."""
    mine = hello(members, place)
    _send(line, mine)
    magic, length = _HEAD.unpack(_receive(line, _HEAD.size, end, look))
    if magic != _MAGIC or length > _LONGEST:
        raise ConnectionError("what the other side says is not from shmcoll")
    theirs = json.loads(_receive(line, length, end, look))
    if "error" not in theirs:
        connections.send(line, _READY, HEARING)
        _receive(line, len(_READY), end, look)
    return [mine, theirs]


def refuse(line: socket.socket, text: str) -> None:
    """Say, in place of a hello, why nobody will come. The other side has read it when it closes the connection."""
    with line, ignored(OSError):
        _send(line, {"error": text})
        line.settimeout(HEARING)
        while line.recv(_LONGEST):
            pass


def _send(line: socket.socket, said: Hello) -> None:
    data = to_bytes(json.dumps(said))
    connections.send(line, _HEAD.pack(_MAGIC, len(data)) + data, HEARING)


def _receive(line: socket.socket, length: int, end: float, look: Look) -> bytes:
    while not can_read(line):
        look()
        if time.monotonic() > end:
            raise TimeoutError("the other side says nothing")
    return connections.receive(line, length, end + HEARING)


def can_read(line: socket.socket) -> bool:
    """Return whether there is something to read, or to accept, within a SLICE."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(1000 * SLICE))


@contextlib.contextmanager
def of_descriptor(fd: int) -> Iterator[socket.socket]:
    """Give a socket for a descriptor of the program, which stays open and as it is."""
    was = os.get_blocking(fd)
    try:
        with socket.socket(fileno=os.dup(fd)) as line:
            yield line
    finally:
        os.set_blocking(fd, was)
