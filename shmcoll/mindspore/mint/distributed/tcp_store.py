"""TCPStore: keys and values that processes share by TCP, also before they have joined a job.

The master listens and keeps the values; every store, that of the master too, is a client of its own connection. Who
writes what:

    client    a request: a byte that names the operation, the length of the key, that of the value, key and value
    server    the answer: a byte, 1 for done and 0 for not done, the length of the value, and the value

Nobody waits forever. A client tries to connect, and waits for a key, until its own timeout. The server has a thread for
each connection, which ends when the client closes it or dies. It answers at once: a client that waits for a key asks
again. The master closes all connections when its store is deleted; then requests of others raise `RuntimeError`.

Requests contain text and bytes only, which are never run or unpickled. Whoever can reach the port can read and write
the store, as in MindSpore: use an address of this machine, such as 127.0.0.1.
"""

import contextlib
import os
import socket
import struct
import threading
import time
import weakref
from datetime import timedelta
from typing import Any

from shmcoll.engine.system.text import to_bytes

_HEADER = struct.Struct("!cIQ")  # operation, bytes of the key, bytes of the value
_ANSWER = struct.Struct("!?Q")
_SET, _GET, _ADD, _DELETE, _ARRIVED = b"S", b"G", b"A", b"D", b"N"
_NAP = 0.005  # seconds between two requests for a key that is not there
_LONGEST_KEY, _LONGEST_VALUE = 4096, 1 << 30  # bytes; the limits of MindSpore


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
        self.port = _start_server(self, host_name, port) if is_master else port
        self._lock = threading.Lock()
        self._socket = self._connect()
        weakref.finalize(self, self._socket.close)
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
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return socket.create_connection((self.host, self.port), timeout=self._timeout)
            except OSError as error:
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
            with self._lock:
                self._socket.sendall(_HEADER.pack(operation, len(name), len(value)) + name + value)
                done, length = _ANSWER.unpack(_read(self._socket, _ANSWER.size))
                return done, _read(self._socket, length)
        except OSError as error:
            self._socket.close()  # an answer that comes later would be taken for that of another request
            raise RuntimeError(f"TCPStore: the master at {self.host}:{self.port} does not answer: {error}") from None


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
        self._connections: list[socket.socket] = []
        self._arrived = 0
        self._pid = os.getpid()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="shmcoll-tcp-store", daemon=True).start()

    def close(self) -> None:
        if os.getpid() != self._pid:  # a fork of the master, which shares its connections
            return
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends `accept`
        self._listener.close()
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)  # ends its thread, which closes it

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with self._lock:
                    self._connections.append(connection)
                    self._arrived += 1
                threading.Thread(target=self._serve, args=(connection,), name="shmcoll-tcp-store", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while True:
                operation, key_length, value_length = _HEADER.unpack(_read(connection, _HEADER.size))
                if key_length > _LONGEST_KEY or value_length > _LONGEST_VALUE:
                    break
                key, value = _read(connection, key_length), _read(connection, value_length)
                with self._lock:
                    done, answer = self._answer(operation, key, value)
                connection.sendall(_ANSWER.pack(done, len(answer)) + answer)
        with self._lock:
            self._connections.remove(connection)

    def _answer(self, operation: bytes, key: bytes, value: bytes) -> tuple[bool, bytes]:
        found = self._values.get(key)
        if operation == _ARRIVED:
            return True, b"%d" % self._arrived
        if operation == _SET:
            self._values[key] = value
            return True, b""
        if operation == _GET:
            return found is not None, found or b""
        if operation == _DELETE:
            return self._values.pop(key, None) is not None, b""
        try:
            total = b"%d" % (int(found or b"0") + int(value))
        except ValueError:
            return False, b""
        self._values[key] = total
        return True, total


def _read(connection: socket.socket, length: int) -> bytes:
    """Read so many bytes. Raise `ConnectionError` if the other side has closed."""
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(min(length - len(parts), 1 << 20))
        if not part:
            raise ConnectionError("the connection is closed")
        parts += part
    return bytes(parts)
