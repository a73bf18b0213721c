"""The process that started the server, seen from there."""

import contextlib
import os
import pickle
import socket
import sys
from typing import Any

from shmcoll.runner import protocol


class CallerSocket:
    """`sock` and `pidfd` are readable when it has sent a message or has ended, in whichever way."""

    def __init__(self, sock: socket.socket, pid: int):
        self.sock = sock
        self.pidfd = os.pidfd_open(pid)
        if os.getppid() != pid:  # it ended before, and the number may be another's by now
            sys.exit(0)

    def send(self, message: object) -> None:
        """Tell it something. Ends this process when there is nobody to tell."""
        try:
            self.sock.send(pickle.dumps(message))
        except OSError:
            sys.exit(0)

    def receive(self, ready: set[int]) -> tuple[Any, list[int]] | None:
        """Return the message that has come, with its descriptors; `ready`: what poll said. None when the caller has
        ended.

        Descriptors that exceed this process's limit are lost. Then there are none.
        """
        if self.pidfd in ready:
            return None
        with contextlib.suppress(ConnectionError):
            data, descriptors, flags, _ = socket.recv_fds(
                self.sock, protocol.LONGEST_MESSAGE, protocol.MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
            if flags & socket.MSG_CTRUNC:
                for fd in descriptors:
                    os.close(fd)
                descriptors = []
            if data:
                return pickle.loads(data), descriptors
        return None

    def descriptors(self) -> set[int]:
        return {self.sock.fileno(), self.pidfd}

    def close(self) -> None:
        """In a rank, which has nothing to do with it."""
        self.sock.close()
        os.close(self.pidfd)
