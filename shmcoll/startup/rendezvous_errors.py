"""How rank 0 tells the ranks that look for it that there will be no arena, where they meet under a name.

Too little memory must not hinder it, so nothing is written anywhere: rank 0 listens at an abstract socket address (one
without a file) made from the name of the arena. Who does what:

    rank 0       listens, hears the rank of each that asks, sends each the error, and goes on to raise it itself once
                 all have asked, or after TELLING seconds: who comes later waits in vain for a rank 0
    the others   look for the arena's name first, in each turn of their wait; then ask whether somebody listens, and
                 raise what they are told

Why nobody waits for ever: a rank asks until its own deadline, and a rank 0 that is killed while it tells closes the
connection, as the kernel does for it; who has no answer then looks on for an arena. Rank 0 hears each that has come for
at most a second, and all of them for TELLING. Why nothing is left: the address ends with the process that has it.

Both sides make sure that the other runs as our user: anybody may listen at an address, or connect to it. Who asks never
waits for a connection: where the listener's queue is full, it asks again in its next turn.
"""

import contextlib
import json
import os
import socket
import struct
import time

from shmcoll.errors import ArenaError

TELLING = 10.0  # seconds
_HEARING = 1.0
_LONGEST = 8192  # bytes
_RANK = struct.Struct("<q")


def tell(name: str, size: int, error: Exception, end: float) -> None:
    """On rank 0, which has failed to make the arena `name` of a job of `size`: tell all others, at most until `end`."""
    amounts = (error.needed, error.available) if isinstance(error, ArenaError) else (0, 0)
    message = json.dumps([str(error)[: _LONGEST // 8], *amounts]).encode()
    end = min(end, time.monotonic() + TELLING)
    unaware = set(range(1, size))
    with _line() as listener, contextlib.suppress(OSError):  # also of an address that somebody else has taken
        listener.bind(_address(name))
        listener.listen(size)
        while unaware:
            listener.settimeout(max(0.001, end - time.monotonic()))
            line, _ = listener.accept()
            with line, contextlib.suppress(OSError, struct.error):
                line.settimeout(_HEARING)
                if _is_ours(line):
                    (rank,) = _RANK.unpack(line.recv(_RANK.size))
                    line.send(message)
                    unaware.discard(rank)


def ask(name: str, key: str, rank: int, end: float) -> None:
    """On another rank, at most until `end`: raise `ArenaError` where rank 0 of job `key` says that it has failed."""
    message = b""
    with _line() as line, contextlib.suppress(OSError):  # as a rule nobody listens
        line.setblocking(False)  # a stranger who listens and takes no call would keep us
        line.connect(_address(name))
        if _is_ours(line):
            line.settimeout(max(0.001, end - time.monotonic()))
            line.send(_RANK.pack(rank))
            message = line.recv(_LONGEST)
    if message:
        text, needed, available = json.loads(message)
        raise ArenaError(
            f"rank {rank}: rank 0 of job {key!r} could not make the arena: {text}", needed=needed, available=available
        )


def _line() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _address(name: str) -> bytes:
    return b"\0" + name.lstrip("/").encode()


def _is_ours(line: socket.socket) -> bool:
    """Whether the process at the other end runs as our user."""
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return bool(uid == os.geteuid())
