"""The master of a TCPStore: it keeps the values, and answers the stores (`tcp_store.py`).

Every store, that of the master too, is a client of its own connections. Who writes what:

    client    a request: a byte that names the operation, the length of the key, that of the value, key and value
    server    the answer: a byte, 1 for done and 0 for not done, the length of the value, and the value

The first request of a connection is HELLO: the key is MAGIC, the value identifies the store. The answer identifies the
master. The master closes a connection that does not begin like this. So only stores count as workers,
each once, and a store finds out whether another master listens at the port by now. Anybody can connect: of those that
have not said HELLO the master keeps MOST_STRANGERS connections, each for HEARING seconds.

A connection is given up if its request is interrupted, and no process uses one of the process that has forked it
(`engine/system/connections.py`). The next request makes another. A request that was interrupted may have been done.

Nobody waits forever. A client tries to connect, and waits for a key or an answer, until its own timeout. The server has
a thread for each connection, which ends when the client closes it or dies, or does not complete within REQUEST seconds
what it has begun. It answers at once: a client that waits for a key asks again. The master closes all connections when
its store is deleted; then requests of others raise `RuntimeError`. A process that the master has forked closes its
descriptors of them, so the connections end with the master.

Requests contain text and bytes only, which are never run or unpickled. Whoever can reach the port can read and write
the store, as in MindSpore: use an address of this machine, such as 127.0.0.1.
"""

import contextlib
import os
import secrets
import socket
import struct
import threading
import time
import weakref

from shmcoll.engine.system.connections import accept, receive, send
from shmcoll.runtime import helpers

HEADER = struct.Struct("!cIQ")  # operation, bytes of the key, bytes of the value
ANSWER = struct.Struct("!?Q")
HELLO, SET, GET, ADD, DELETE, ARRIVED = b"H", b"S", b"G", b"A", b"D", b"N"
MAGIC = b"shmcoll TCPStore 1"
IDENTITY = 16  # bytes
LONGEST_KEY, LONGEST_VALUE = 4096, 1 << 30  # bytes; the limits of MindSpore
HEARING, REQUEST = 10.0, 300.0  # seconds
MOST_STRANGERS = 64


def start(store: object, host: str, port: int) -> int:
    """Listen, and serve until the store is deleted. Return the port."""
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise RuntimeError(f"TCPStore: cannot listen at {host}:{port}: {error}") from None
    server = _Server(listener)
    weakref.finalize(store, server.close)
    return int(listener.getsockname()[1])


class _Server:
    """The values, and the connections of all stores. `lock` guards both."""

    def __init__(self, listener: socket.socket):
        self._listener = listener
        self._values: dict[bytes, bytes] = {}
        self._connections: set[socket.socket] = set()
        self._strangers: dict[socket.socket, None] = {}  # connections without HELLO so far, the oldest first
        self._stores: set[bytes] = set()  # those that have said it
        self._identity = secrets.token_bytes(IDENTITY)
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a finaliser may close it within
        _servers.add(self)
        threading.Thread(target=self._accept, name="shmcoll-tcp-store", daemon=True).start()

    def close(self) -> None:
        if os.getpid() != self._pid:  # a fork of the master, which shares its connections
            return
        _end(self._listener)  # ends `accept`
        self._listener.close()
        self._end_connections()

    def leave(self) -> None:
        """Close the descriptors of the master, in a process that it has forked."""
        for one in (self._listener, *self._connections):
            one.close()

    def _end_connections(self) -> None:
        with self._lock:
            for connection in list(self._connections):
                _end(connection)  # ends its thread, which closes it

    @helpers.counted()
    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                if connection := accept(self._listener):
                    self._begin(connection)
        self._end_connections()  # one may have connected last

    def _begin(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)
            self._strangers[connection] = None
            if len(self._strangers) > MOST_STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                _end(oldest)
        try:
            threading.Thread(target=self._serve, args=(connection,), name="shmcoll-tcp-store", daemon=True).start()
        except RuntimeError:  # there are too many threads
            self._drop(connection)

    @helpers.counted()
    def _serve(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):
                operation, key, store = self._request(connection, HEARING, IDENTITY)
                if (operation, key) != (HELLO, MAGIC):
                    return
                with self._lock:
                    self._strangers.pop(connection, None)
                    self._stores.add(store)
                done, answer = True, self._identity
                while True:
                    send(connection, ANSWER.pack(done, len(answer)) + answer, REQUEST)
                    request = self._request(connection, None, LONGEST_VALUE)
                    with self._lock:
                        done, answer = self._answer(*request)
        finally:
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)
            self._strangers.pop(connection, None)
        connection.close()

    def _request(self, connection: socket.socket, patience: float | None, longest: int) -> tuple[bytes, bytes, bytes]:
        """Return operation, key and value. patience: seconds until it is complete; None waits for its beginning."""
        end = None if patience is None else time.monotonic() + patience
        first = receive(connection, 1, end)
        end = end or time.monotonic() + REQUEST
        operation, *lengths = HEADER.unpack(first + receive(connection, HEADER.size - 1, end))
        if lengths[0] > LONGEST_KEY or lengths[1] > longest:
            raise ConnectionError("this is not a request")
        key, value = (receive(connection, length, end) for length in lengths)
        return operation, key, value

    def _answer(self, operation: bytes, key: bytes, value: bytes) -> tuple[bool, bytes]:
        found = self._values.get(key)
        if operation == ARRIVED:
            return True, b"%d" % len(self._stores)
        if operation == SET:
            self._values[key] = value
            return True, b""
        if operation == GET:
            return found is not None, found or b""
        if operation == DELETE:
            return self._values.pop(key, None) is not None, b""
        if operation != ADD:
            raise ConnectionError("this is not a request")
        try:
            total = b"%d" % (int(found or b"0") + int(value))
        except ValueError:
            return False, b""
        self._values[key] = total
        return True, total


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


_servers: "weakref.WeakSet[_Server]" = weakref.WeakSet()


def _leave_all() -> None:
    for server in list(_servers):
        server.leave()


os.register_at_fork(after_in_child=_leave_all)
