"""How rank 0 reports that it could not make the arena, to the ranks that look for one by name.

Too little memory must not prevent that. So rank 0 writes no file, but listens at an abstract socket address. Any user
can use any address. So the address has a random end, as the names of arenas have (`arena_names.py`), and a rank asks at
every address of its job that /proc/net/unix lists.

    rank 0       listens, reads the number of each rank that asks, and sends it the error. When all have asked, or after
                 TELLING seconds, it raises the error itself. A rank that comes later finds no rank 0
    the others   in each turn of their wait, first look for an open arena, and then ask, and raise the error that they
                 get

No rank waits forever. A rank asks until its own deadline. If rank 0 is killed while it reports, the kernel closes the
connection, and a rank without an answer looks for an arena again. Rank 0 waits at most a second for each rank that has
connected, and TELLING seconds for all of them. Nothing is left behind: the address ends with its process.

Both sides check that the other one runs as this user. A rank never waits for a connection: if the queue of the listener
is full, the rank asks again in its next turn. So another user, who may listen at any number of such addresses, can
delay a turn only by the time of connecting to them.
"""

import json
import os
import re
import socket
import struct
import time
from pathlib import Path

from shmcoll.engine.system.connections import accept
from shmcoll.engine.system.handlers import ignored
from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import ArenaError
from shmcoll.startup import arena_names
from shmcoll.startup.ports import is_ours

TELLING = 10.0  # seconds
_HEARING = 1.0
_LONGEST = 8192  # bytes
_RANK = struct.Struct("<q")


def tell(key: str, size: int, error: Exception, end: float) -> None:
    """Send the error to all other ranks, until `end` at most. Called on rank 0, which could not make the arena of job
    `key` of this size."""
    amounts = (error.needed, error.available) if isinstance(error, ArenaError) else (0, 0)
    message = to_bytes(json.dumps([str(error)[: _LONGEST // 16], *amounts]))
    end = min(end, time.monotonic() + TELLING)
    unaware = set(range(1, size))
    with ignored(OSError), _line() as listener:
        listener.bind(b"\0" + _prefix(key) + to_bytes(os.urandom(16).hex()))
        listener.listen(size)
        while unaware and (left := end - time.monotonic()) > 0:
            listener.settimeout(left)
            line = accept(listener)
            if line is None:
                continue
            with line, ignored(OSError, struct.error):
                line.settimeout(_HEARING)
                if is_ours(line):
                    (rank,) = _RANK.unpack(line.recv(_RANK.size))
                    line.send(message)
                    unaware.discard(rank)


def ask(key: str, rank: int, end: float) -> None:
    """Raise `ArenaError` if rank 0 of job `key` reports that it has failed. Called on other ranks; takes until `end` at
    most."""
    for address in _listeners(key):
        message = b""
        with ignored(OSError), _line() as line:
            line.setblocking(False)  # a listener of another user may accept no connection
            line.connect(address)
            if is_ours(line):
                line.settimeout(max(0.001, end - time.monotonic()))
                line.send(_RANK.pack(rank))
                message = line.recv(_LONGEST)
        if message:
            text, needed, available = json.loads(message)
            raise ArenaError(
                f"rank {rank}: rank 0 of job {key!r} could not make the arena: {text}",
                needed=needed,
                available=available,
            )


def _listeners(key: str) -> set[bytes]:
    """Return the addresses at which a rank 0 of this job may listen. Usually there are none."""
    sockets = b""
    with ignored(OSError):
        sockets = Path("/proc/net/unix").read_bytes()
    found = re.findall(rb"@(" + re.escape(_prefix(key)) + rb"[0-9a-f]{32})$", sockets, re.MULTILINE)
    return {b"\0" + address for address in found}


def _prefix(key: str) -> bytes:
    return to_bytes(arena_names.of_job(key))


def _line() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
