"""Connections on which requests are answered: nobody reads the answer of another request, and nobody waits forever."""

import errno
import os
import socket
import threading
import time

import pytest

from shmcoll.engine.system import connections
from shmcoll.engine.system.connections import Connections, accept, receive


class Listener:
    def __init__(self, *numbers: int):
        self.numbers = list(numbers)

    def accept(self):
        if self.numbers:
            raise OSError(self.numbers.pop(0), "as the kernel")
        return "a connection", None


def test_an_accept_that_fails_is_tried_again_after_a_pause(monkeypatch):
    paused: list[float] = []
    monkeypatch.setattr(connections.time, "sleep", paused.append)
    passing = errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED, errno.EPERM, errno.EPROTO
    listener = Listener(*passing)
    assert [accept(listener) for _ in passing] == [None] * len(passing)
    assert (accept(listener), len(paused)) == ("a connection", len(passing))
    for closed in (errno.EBADF, errno.ENOTSOCK, errno.EINVAL):
        with pytest.raises(OSError, match="as the kernel"):
            accept(Listener(closed))


def test_a_limit_is_one_of_the_whole(monkeypatch):
    """The other side sends one byte after the other, each soon after the one before."""
    here, there = socket.socketpair()
    ended = threading.Event()

    def drip() -> None:
        while not ended.wait(1e-3):
            there.send(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    with here, there:
        assert receive(here, 3, None) == b"xxx"
        with pytest.raises(TimeoutError):
            receive(here, 1 << 20, time.monotonic() - 0.9)  # a mebibyte gets a second more
        ended.set()
        dripping.join()


def test_a_connection_serves_the_next_request_only_after_its_answer():
    others: list[socket.socket] = []

    def connect() -> socket.socket:
        here, there = socket.socketpair()
        others.append(there)
        return here

    def ask(connection: socket.socket) -> int:
        return os.fstat(connection.fileno()).st_ino

    def fail(connection: socket.socket) -> None:
        raise KeyboardInterrupt

    one = Connections()
    assert one.ask(connect, ask) == one.ask(connect, ask)
    inner = one.ask(connect, lambda connection: (one.ask(connect, ask), ask(connection)))  # as a signal handler
    assert inner[0] != inner[1]
    assert len(others) == 2
    with pytest.raises(KeyboardInterrupt):
        one.ask(connect, fail)
    assert sum(other.recv(1, socket.MSG_DONTWAIT) == b"" for other in others if _is_readable(other)) == 1
    child = os.fork()
    if child == 0:
        before = {ask(connection) for _, connection in one._free}
        os._exit(one.ask(connect, ask) in before or len(others) != 3)
    assert os.waitpid(child, 0)[1] == 0
    one.ask(connect, ask)
    assert len(others) == 2
    one.close()
    for other in others:
        other.close()


def _is_readable(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        one.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    return True
