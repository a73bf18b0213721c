"""The output of a rank that stays: it goes into the pipe of the present call, or is kept until the next call.

A thread of the program may print at any time, also in the moment between two calls. Each write is either passed on or
kept, under a lock. Only what Python prints is kept: a native library, or a process that the rank has started, writes to
the descriptor, which is /dev/null between calls. The output after the last call is lost.
"""

import contextlib
import io
import os
import threading
from typing import Any

from shmcoll.engine.system.text import to_bytes

MOST = 1 << 16  # bytes that are kept; further output is dropped, and counted


class KeptOutput(io.RawIOBase):
    """Descriptor `fd`, behind a text stream."""

    def __init__(self, fd: int):
        self._fd = fd
        self._lock = threading.RLock()  # a signal handler may print, too
        self._kept: bytearray | None = bytearray()  # None during a call
        self._dropped = 0
        os.register_at_fork(after_in_child=self._forget_lock)

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        """Pass the text on or keep it. Returns how many bytes were accepted."""
        with self._lock:
            if self._kept is None:
                return os.write(self._fd, data)
            new = bytes(data)
            room = new[: MOST - len(self._kept)]
            self._kept += room
            self._dropped += len(new) - len(room)
            return len(new)

    def open(self) -> None:
        """Print the kept output into the pipe of a call that begins, to which `fd` leads."""
        with self._lock:
            kept, self._kept = self._kept or bytearray(), None
            dropped, self._dropped = self._dropped, 0
            if dropped:
                kept += to_bytes(f"[{dropped} more bytes were printed between calls]\n")
            with contextlib.suppress(OSError):  # no process reads the output of the caller's ranks
                while kept:
                    del kept[: os.write(self._fd, kept)]

    def keep(self) -> None:
        """Keep the output from now on, because the call is over."""
        with self._lock:
            self._kept = bytearray()

    def _forget_lock(self) -> None:
        self._lock = threading.RLock()
