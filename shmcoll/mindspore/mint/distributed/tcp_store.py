"""TCPStore: keys and values that processes share by TCP, also before they have joined a job.

The master listens and keeps the values; every store, that of the master too, is a client. Who writes what:

    client    a request: a byte that names the operation, the length of the key, that of the value, key and value
    server    the answer: a byte, 1 for done and 0 for not done, the length of the value, and the value

The first request of a connection is HELLO: the key is _MAGIC, the value identifies the store. The answer identifies the
master. The master closes the connection of a stranger, who does not begin like this. So only stores count as workers,
each once, and a store finds out whether another master listens at the port by now. Anybody can connect: of those that
have not said HELLO the master keeps _MOST_STRANGERS connections, each for HEARING seconds.

A connection is given up if its request is interrupted, and no process uses one of the process that has forked it
(`engine/system/connections.py`). The next request makes another. A request that was interrupted may have been done.

Nobody waits forever. A client tries to connect, and waits for a key or an answer, until its own timeout. The server has
a thread for each connection, which ends when the client closes it or dies, or does not complete within _REQUEST seconds
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
from datetime import timedelta
from typing import Any

from shmcoll.engine.system.connections import Connections, accept, receive, send
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.text import to_bytes

_HEADER = struct.Struct("!cIQ")  # operation, bytes of the key, bytes of the value
_ANSWER = struct.Struct("!?Q")
_HELLO, _SET, _GET, _ADD, _DELETE, _ARRIVED = b"H", b"S", b"G", b"A", b"D", b"N"
_MAGIC = b"shmcoll TCPStore 1"
_IDENTITY = 16  # bytes
_NAP = 0.005  # seconds between two requests for a key that is not there
_LONGEST_KEY, _LONGEST_VALUE = 4096, 1 << 30  # bytes; the limits of MindSpore
HEARING, _REQUEST = 10.0, 300.0  # seconds
_MOST_STRANGERS = 64


class TCPStore:
    """A store of keys and values, for processes that know the address of its master.

    Args:
        host_name: the address at which the master listens.
        port: its port; 0 for the master to choose a free one (attribute `port`).
        world_size: the number of stores, the master's among them; only the master uses it. None for any.
        is_master: whether this process keeps the store.
        timeout: the limit of the wait for the master, for the other stores, and for a key in `get`.
        wait_for_workers: whether the master waits until all `world_size` stores are connected.
        multi_tenant: has no effect.
        master_listen_fd: has no effect.
        use_libuv: has no effect.

    Raises:
        TypeError: an argument is of another type.
        ValueError: the port is not 0 to 65535, or `world_size` is not positive.
        RuntimeError: the master cannot listen; or the master, or a worker, has not come within the timeout.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ):
        world_size = 1 if world_size is None else world_size
        for name, value, kind, text in (
            ("host_name", host_name, str, "string"),
            ("port", port, int, "int"),
            ("is_master", is_master, bool, "bool"),
            ("timeout", timeout, timedelta, "timedelta"),
            ("wait_for_workers", wait_for_workers, bool, "bool"),
            ("world_size", world_size, int, "int"),
        ):
            _check_type("TCPStore", name, value, kind, text)
        if not 0 <= port <= 65535:
            raise ValueError(f"For 'TCPStore', the argument 'port' must be legal, but got {port}.")
        if world_size <= 0:
            raise ValueError(f"For 'TCPStore', the argument 'world_size' must be legal, but got {world_size}.")
        self.host = host_name
        self._timeout = timeout.total_seconds()
        self._identity = secrets.token_bytes(_IDENTITY)
        self._master: bytes | None = None
        self.port = _start_server(self, host_name, port) if is_master else port
        self._connections = Connections()
        weakref.finalize(self, self._connections.close)
        self._wait_for_master()
        if is_master and wait_for_workers:
            self._wait_for_workers(world_size)

    def set(self, key: str, value: str | bytes) -> None:
        """Store a value.

        Args:
            key: at most 4 KiB.
            value: text or bytes, at most 1 GiB.

        Raises:
            TypeError: an argument is of another type.
            ValueError: an argument is too long.
            RuntimeError: the master has ended.
        """
        _check_type("TCPStore.set", "key", key, str, "string")
        _check_type("TCPStore.set", "value", value, (str, bytes), "string or bytes")
        self._ask(_SET, key, to_bytes(value) if isinstance(value, str) else value)

    def get(self, key: str) -> bytes:
        """Return a value. Wait for it up to the timeout of the store.

        Args:
            key: the key of `set` or `add`.

        Raises:
            TypeError: the key is not a string.
            RuntimeError: no value has been set within the timeout, or the master has ended.
        """
        _check_type("TCPStore.get", "key", key, str, "string")
        deadline = time.monotonic() + self._timeout
        while True:
            found, value = self._ask(_GET, key)
            if found:
                return value
            if time.monotonic() > deadline:
                raise RuntimeError(f"For 'TCPStore.get', no value of {key!r} was set within {self._timeout:g} s")
            time.sleep(_NAP)

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which begins at 0.

        Args:
            key: the key of the counter.
            amount: an integer.

        Returns:
            The value of the counter afterwards.

        Raises:
            TypeError: an argument is of another type.
            RuntimeError: the key has a value that is not a number, or the master has ended.
        """
        _check_type("TCPStore.add", "key", key, str, "string")
        _check_type("TCPStore.add", "amount", amount, int, "string or int")
        done, value = self._ask(_ADD, key, b"%d" % int(amount))
        if not done:
            raise RuntimeError(f"For 'TCPStore.add', the value of {key!r} is not a number")
        return int(value)

    def delete_key(self, key: str) -> bool:
        """Delete a value.

        Args:
            key: its key.

        Returns:
            Whether there was one.

        Raises:
            TypeError: the key is not a string.
            RuntimeError: the master has ended.
        """
        _check_type("TCPStore.delete_key", "key", key, str, "string")
        return self._ask(_DELETE, key)[0]

    def _connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), timeout=self._timeout)
        try:
            _, master = self._exchange(connection, _HELLO, _MAGIC, self._identity)
            if self._master not in (None, master):
                raise ConnectionError("another one listens there by now")
        except BaseException:
            connection.close()
            raise
        self._master = master
        return connection

    def _wait_for_master(self) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._connections.ask(self._connect, lambda _: None)
            except OSError as error:
                reraise_of_handler(error)
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"TCPStore: no master answers at {self.host}:{self.port} within {self._timeout:g} s: {error}"
                    ) from None
            time.sleep(_NAP)

    def _wait_for_workers(self, world_size: int) -> None:
        deadline = time.monotonic() + self._timeout
        while (arrived := int(self._ask(_ARRIVED, "")[1])) < world_size:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"TCPStore: {arrived} of {world_size} stores have connected to {self.host}:{self.port} within "
                    f"{self._timeout:g} s"
                )
            time.sleep(_NAP)

    def _ask(self, operation: bytes, key: str, value: bytes = b"") -> tuple[bool, bytes]:
        name = to_bytes(key)
        for what, length, limit in (("key", len(name), _LONGEST_KEY), ("value", len(value), _LONGEST_VALUE)):
            if length > limit:
                raise ValueError(f"TCPStore: the {what} has {length} bytes; at most {limit} are possible")
        try:
            return self._connections.ask(self._connect, lambda line: self._exchange(line, operation, name, value))
        except OSError as error:
            reraise_of_handler(error)
            raise RuntimeError(f"TCPStore: the master at {self.host}:{self.port} does not answer: {error}") from None

    def _exchange(self, connection: socket.socket, operation: bytes, key: bytes, value: bytes) -> tuple[bool, bytes]:
        """Send a request and return its answer. Raises `OSError`."""
        end = time.monotonic() + self._timeout
        send(connection, _HEADER.pack(operation, len(key), len(value)) + key + value, self._timeout)
        done, length = _ANSWER.unpack(receive(connection, _ANSWER.size, end))
        if length > _LONGEST_VALUE:
            raise ConnectionError(f"its answer would have {length} bytes: it is not a TCPStore")
        return done, receive(connection, length, end)


def _check_type(operation: str, name: str, value: Any, kind: Any, text: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(
            f"For '{operation}', the argument '{name}' must be type of {text}, but got '{name}' type : {type(value)}."
        )


# --- the master -------------------------------------------------------------------------------------------------------


def _start_server(store: TCPStore, host: str, port: int) -> int:
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
        self._identity = secrets.token_bytes(_IDENTITY)
        self._pid = os.getpid()
        self._lock = threading.Lock()
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
            for connection in self._connections:
                _end(connection)  # ends its thread, which closes it

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                if connection := accept(self._listener):
                    self._begin(connection)
        self._end_connections()  # one may have come last

    def _begin(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)
            self._strangers[connection] = None
            if len(self._strangers) > _MOST_STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                _end(oldest)
        try:
            threading.Thread(target=self._serve, args=(connection,), name="shmcoll-tcp-store", daemon=True).start()
        except RuntimeError:  # there are too many threads
            self._drop(connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):
                operation, key, store = self._request(connection, HEARING, _IDENTITY)
                if (operation, key) != (_HELLO, _MAGIC):
                    return
                with self._lock:
                    self._strangers.pop(connection, None)
                    self._stores.add(store)
                done, answer = True, self._identity
                while True:
                    send(connection, _ANSWER.pack(done, len(answer)) + answer, _REQUEST)
                    request = self._request(connection, None, _LONGEST_VALUE)
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
        first = receive(connection, 1, None if patience is None else time.monotonic() + patience)
        end = time.monotonic() + (patience or _REQUEST)
        operation, *lengths = _HEADER.unpack(first + receive(connection, _HEADER.size - 1, end))
        if lengths[0] > _LONGEST_KEY or lengths[1] > longest:
            raise ConnectionError("this is not a request")
        key, value = (receive(connection, length, end) for length in lengths)
        return operation, key, value

    def _answer(self, operation: bytes, key: bytes, value: bytes) -> tuple[bool, bytes]:
        found = self._values.get(key)
        if operation == _ARRIVED:
            return True, b"%d" % len(self._stores)
        if operation == _SET:
            self._values[key] = value
            return True, b""
        if operation == _GET:
            return found is not None, found or b""
        if operation == _DELETE:
            return self._values.pop(key, None) is not None, b""
        if operation != _ADD:
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
