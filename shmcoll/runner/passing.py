"""Messages with descriptors, over a socket of this machine.

The functions of the standard library, `socket.send_fds` and `recv_fds`, ignore their flags in Python 3.11 to 3.13.
"""

import array
import socket
from collections.abc import Sequence
from typing import Any

MOST = 253  # descriptors of one message; the kernel's limit
_SPACE = socket.CMSG_SPACE(4 * MOST)


def send(sock: socket.socket, parts: Sequence[Any], descriptors: Sequence[int], flags: int = 0) -> None:
    """Send a message. A receiver that has ended is an error and not a signal."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    sock.sendmsg(parts, rights, flags | socket.MSG_NOSIGNAL)


def receive(sock: socket.socket, size: int, flags: int = 0) -> tuple[bytes, list[int], bool]:
    """Return the next message, its descriptors, which programs that this process starts do not inherit, and whether
    some were lost: they exceed the limit of this process."""
    data, others, came, _ = sock.recvmsg(size, _SPACE, flags | socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, numbers in others:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(numbers[: len(numbers) // 4 * 4])
    return data, descriptors.tolist(), bool(came & socket.MSG_CTRUNC)
