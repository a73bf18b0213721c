"""TCPStore: keys and values that processes share by TCP, also before they have joined a job.

Every store, that of the master too, is a client. `tcp_store_master.py` has the protocol.
"""

import secrets
import socket
import time
import weakref
from datetime import timedelta
from typing import Any

from shmcoll.engine.system.connections import Connections, receive, send
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.text import to_bytes
from shmcoll.mindspore.mint.distributed import tcp_store_master as m

_NAP = 0.005  # seconds between two requests for a key that is not there


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
        RuntimeError: the master cannot listen; or the master, or a worker, has not connected within the timeout.
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
        self._identity = secrets.token_bytes(m.IDENTITY)
        self._master: bytes | None = None
        self.port = m.start(self, host_name, port) if is_master else port
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
        self._ask(m.SET, key, to_bytes(value) if isinstance(value, str) else value)

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
            found, value = self._ask(m.GET, key)
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
        done, value = self._ask(m.ADD, key, b"%d" % int(amount))
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
        return self._ask(m.DELETE, key)[0]

    def _connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), timeout=self._timeout)
        try:
            _, master = self._exchange(connection, m.HELLO, m.MAGIC, self._identity)
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
        while (arrived := int(self._ask(m.ARRIVED, "")[1])) < world_size:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"TCPStore: {arrived} of {world_size} stores have connected to {self.host}:{self.port} within "
                    f"{self._timeout:g} s"
                )
            time.sleep(_NAP)

    def _ask(self, operation: bytes, key: str, value: bytes = b"") -> tuple[bool, bytes]:
        name = to_bytes(key)
        for what, length, limit in (("key", len(name), m.LONGEST_KEY), ("value", len(value), m.LONGEST_VALUE)):
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
        send(connection, m.HEADER.pack(operation, len(key), len(value)) + key + value, self._timeout)
        done, length = m.ANSWER.unpack(receive(connection, m.ANSWER.size, end))
        if length > m.LONGEST_VALUE:
            raise ConnectionError(f"its answer would have {length} bytes: it is not a TCPStore")
        return done, receive(connection, length, end)


def _check_type(operation: str, name: str, value: Any, kind: Any, text: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(
            f"For '{operation}', the argument '{name}' must be type of {text}, but got '{name}' type : {type(value)}."
        )
