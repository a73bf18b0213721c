"""The process that started the server, on the side of the server."""

import contextlib
import os
import pickle
import socket
import sys
from typing import Any

from shmcoll.runner import passing, protocol


class CallerSocket:
    """The caller. `sock` is readable if it has sent a message, and `pidfd` if it has ended."""

    def __init__(self, sock: socket.socket, pid: int):
        self.sock = sock
        self.pidfd = os.pidfd_open(pid)
        if os.getppid() != pid:  # it ended before, and another process may have its number by now
            sys.exit(0)

    def send(self, message: object) -> None:
        """Send it a message. Ends this process if the caller has ended."""
        try:
            self.sock.send(pickle.dumps(message))
        except ConnectionError:
            sys.exit(0)

    def receive(self, ready: set[int]) -> tuple[Any, list[int]] | None:
        """Return the message that has arrived, with its descriptors; None if the caller has ended. ready: the result of
        poll.

        Descriptors that exceed this process's limit are lost. Then the list is empty.
        """
        if self.pidfd in ready:
            return None
        with contextlib.suppress(ConnectionError):
            data, descriptors, is_cut = passing.receive(self.sock, protocol.LONGEST_MESSAGE)
            if is_cut:
                for fd in descriptors:
                    os.close(fd)
                descriptors = []
            if data:
                return protocol.parse(data, object), descriptors
        return None

    def descriptors(self) -> set[int]:
        return {self.sock.fileno(), self.pidfd}

    def close(self) -> None:
        """Close both descriptors, in a rank: it does not talk to the caller."""
        self.sock.close()
        os.close(self.pidfd)
