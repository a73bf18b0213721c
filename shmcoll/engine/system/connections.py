"""Connections on which a process asks and another answers, and the listeners that accept them.

An answer that nobody has read stays in its connection, where the next request would take it for its own. A request may
end before its answer comes: by an error, or by an exception of a signal handler, which comes between any two
instructions. So a connection belongs to one request at a time, and only one whose answer has been read serves another.
A process that was forked has descriptors of its parent's connections, and uses none of them.

Another user can use up the descriptors of the system, and anybody can connect to a TCP port. So an accept that has
failed is tried again after a pause, a limit of time is one of the whole request, and a stranger who is slow or silent
costs a connection for a limited time.
"""

import errno
import os
import socket
import time
from collections.abc import Callable
from typing import TypeVar

from shmcoll.engine.system.handlers import is_of_handler

_PAUSE = 0.02  # seconds after an accept that has failed
_SLOWEST = 1 << 20  # bytes per second: a limit is extended by this
_CLOSED = (errno.EBADF, errno.ENOTSOCK, errno.EINVAL)

Answer = TypeVar("Answer")


class Connections:
    """The connections of one user of a service. All threads, signal handlers and forked processes may ask."""

    def __init__(self) -> None:
        self._free: list[tuple[int, socket.socket]] = []  # each with its process; its answers have been read

    def ask(self, connect: Callable[[], socket.socket], exchange: Callable[[socket.socket], Answer]) -> Answer:
        """Return what `exchange` returns for a connection. It sends a request and reads the whole answer.

        connect: makes a connection, if none is free.
        """
        connection = self._take() or connect()
        try:
            answer = exchange(connection)
        except BaseException:
            connection.close()
            raise
        self._free.append((os.getpid(), connection))
        return answer

    def close(self) -> None:
        while connection := self._take():
            connection.close()

    def _take(self) -> socket.socket | None:
        while self._free:
            try:
                process, connection = self._free.pop()
            except IndexError:  # another thread has taken it
                break
            if process == os.getpid():
                return connection
            connection.close()  # only here: the process that has forked this one goes on with it
        return None


def accept(listener: socket.socket) -> socket.socket | None:
    """Return the next connection; None, after a pause, if it cannot be accepted now. Raises `OSError` if the listener
    is closed, and `TimeoutError` after its timeout."""
    try:
        return listener.accept()[0]
    except OSError as error:
        if isinstance(error, TimeoutError) or error.errno in _CLOSED or is_of_handler(error):
            raise
        time.sleep(_PAUSE)
        return None


def send(connection: socket.socket, data: bytes, seconds: float) -> None:
    """Send all bytes. Raises `TimeoutError` after so many seconds for all of them, and some more for many bytes."""
    connection.settimeout(seconds + len(data) / _SLOWEST)
    connection.sendall(data)


def receive(connection: socket.socket, length: int, end: float | None) -> bytes:
    """Return so many bytes. Raises `ConnectionError` if the other side closes before, and `TimeoutError`.

    end: when all bytes must have arrived (`time.monotonic`), and some more for many bytes. None waits without limit.
    """
    parts = bytearray()
    while len(parts) < length:
        left = None if end is None else end + length / _SLOWEST - time.monotonic()
        if left is not None and left < 0 and parts:  # what has arrived meanwhile at a process that was stopped is read
            raise TimeoutError("the rest has not arrived in time")
        connection.settimeout(None if left is None else max(left, 1e-3))
        if not (part := connection.recv(min(length - len(parts), 1 << 20))):
            raise ConnectionError("the connection is closed")
        parts += part
    return bytes(parts)
