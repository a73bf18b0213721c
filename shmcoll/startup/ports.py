"""Ports: addresses at which one process of a job waits for processes of others, and names under which they are found.

Each is a socket of its own, at an address that is no file, so it ends with its process and leaves nothing behind:

    \\0shmcoll.UID.port.RANDOM        a port; RANDOM is 128 random bits, and the port's name is `shmcoll:RANDOM`
    \\0shmcoll.UID.name.HASH.RANDOM   a published name: a hash of the name, and RANDOM of the port that it stands for

A published name is read in the list of addresses; nobody connects to it except to learn whose it is. Any user can
listen at any address. So each side of a connection checks that the other one runs as this user, before it sends or
reads a byte; an address of another user counts as if it were not there.
"""

import errno
import hashlib
import os
import re
import socket
import struct
import weakref
from pathlib import Path

from shmcoll.engine.system.handlers import ignored
from shmcoll.engine.system.text import to_bytes, to_text
from shmcoll.errors import ShmcollError

_PREFIX = "shmcoll:"
_NAME = re.compile(r"shmcoll:([0-9a-f]{32})")
_PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid


class NoPort(ShmcollError):
    """There is no such port, or nobody listens there any more."""


class NoName(ShmcollError):
    """A name is not published, or it is already."""


class Port:
    """An open port of this process. name: what others connect to."""

    def __init__(self) -> None:
        number = os.urandom(16).hex()
        self.name = f"{_PREFIX}{number}"
        self.listener = _listening(_address(number))

    def take(self) -> socket.socket | None:
        """Return a connection of a process of this user, if one waits. Does not wait."""
        _serve_names()
        with ignored(BlockingIOError):
            line = self.listener.accept()[0]
            if is_ours(line):
                return line
            line.close()
        return None

    def close(self) -> None:
        """Close the port. Processes whose connections have not been taken learn it."""
        self.listener.close()


def connect(name: str) -> socket.socket:
    """Return a connection to a port. Raises `NoPort`."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise NoPort(f"{name!r} is not the name of a port, which looks like {_PREFIX}0123...")
    line = _line()
    try:
        line.connect(_address(found[1]))
    except OSError as error:
        line.close()
        if error.errno == errno.ECONNREFUSED:
            raise NoPort(f"port {name} is closed, or was opened on another machine") from None
        raise
    if not is_ours(line):
        line.close()
        raise NoPort(f"port {name} belongs to another user")
    return line


def is_ours(line: socket.socket) -> bool:
    """Return whether the process at the other end runs as this user."""
    _, uid, _ = _PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(uid == os.geteuid())


# --- published names --------------------------------------------------------------------------------------------------

_published: dict[str, tuple[str, socket.socket]] = {}  # by this process: the port's name, and the socket


def publish(name: str, port: str) -> None:
    """Have `look_up` find a port under a name, until this process ends or takes it back. Raises `NoName`, `NoPort`."""
    found = _NAME.fullmatch(port)
    if found is None:
        raise NoPort(f"{port!r} is not the name of a port")
    if name in _published or _find(name) is not None:
        raise NoName(f"{name!r} is published already")
    listener = _listening(_prefix(name) + to_bytes(found[1]))
    _published[name] = port, listener


def unpublish(name: str, port: str) -> None:
    """Take a name back that this process has published for a port. Raises `NoName`."""
    known, listener = _published.get(name, ("", None))
    if listener is None or known != port:
        raise NoName(f"this process has not published {name!r} for port {port}")
    listener.close()
    del _published[name]


def look_up(name: str) -> str:
    """Return the port that a process of this user has published under a name. Raises `NoName`."""
    found = _find(name)
    if found is None:
        raise NoName(f"{name!r} is not published on this machine")
    return found


def _find(name: str) -> str | None:
    _serve_names()
    sockets = b""
    with ignored(OSError):
        sockets = Path("/proc/net/unix").read_bytes()
    prefix = _prefix(name)
    for number in set(re.findall(rb"@" + re.escape(prefix[1:]) + rb"([0-9a-f]{32})$", sockets, re.MULTILINE)):
        with ignored(OSError), _line() as line:
            line.setblocking(False)  # a listener of another user may accept no connection
            line.connect(prefix + number)
            if is_ours(line):
                return f"{_PREFIX}{to_text(number)}"
    return None


def _serve_names() -> None:
    """Drop the connections of those who have looked at names of this process: only so many may wait."""
    for _, listener in _published.values():
        with ignored(OSError):
            while True:
                listener.accept()[0].close()


def _prefix(name: str) -> bytes:
    return to_bytes(f"\0shmcoll.{os.geteuid()}.name.{hashlib.sha256(to_bytes(name)).hexdigest()[:32]}.")


def _address(number: str) -> bytes:
    return to_bytes(f"\0shmcoll.{os.geteuid()}.port.{number}")


def _listening(address: bytes) -> socket.socket:
    listener = _line()
    listener.bind(address)
    listener.listen(4096)
    listener.setblocking(False)
    _listeners.add(listener)
    return listener


def _line() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def _close_in_child() -> None:
    """Close, in a fork, what is its parent's: an address is free when nobody has it open any more."""
    for listener in _listeners:
        listener.close()
    _published.clear()


_listeners: weakref.WeakSet[socket.socket] = weakref.WeakSet()
os.register_at_fork(after_in_child=_close_in_child)
