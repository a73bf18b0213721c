"""The ranks' output where it passes through the launcher: each line marked with its rank (`--tag-output`), or written
into the rank's log file as well (`--tee`). stdout and stderr stay apart, lines stay whole.

A rank writes into a pipe; its `Stream` cuts that into lines and appends them to the `Sink` of the launcher's own stdout
or stderr. A reader that is slow, or stopped, must not hold up the launcher, which has ranks to watch: so a sink writes
only what is taken without waiting, and while it is full its streams are not read; then the ranks wait, as they would
for a slow terminal. When the reader has gone away the pipes are closed, so that the ranks learn it as they would alone.
"""

import contextlib
import os
import select

_FULL = 1 << 18
_LONGEST_LINE = 1 << 16


class Sink:
    """Bytes on their way to descriptor `fd` of the launcher."""

    def __init__(self, fd: int):
        self.fd = fd
        self.pending = bytearray()
        self.broken = False

    @property
    def full(self) -> bool:
        return len(self.pending) >= _FULL

    def write_some(self) -> None:
        """Call when `fd` is ready: a pipe then takes PIPE_BUF bytes without waiting."""
        try:
            written = os.write(self.fd, self.pending[: select.PIPE_BUF])
        except BlockingIOError:
            pass
        except OSError:
            self.give_up()
        else:
            del self.pending[:written]

    def give_up(self) -> None:
        """Nobody reads any more: drop what there is and what comes."""
        self.broken = True
        self.pending.clear()


class Stream:
    """One rank's stdout or stderr on its way into `sink`. `open` until the rank can add nothing more.

    `marked`: with '[rank] ' before each line; `log`: descriptor of a file that gets the same without, or None.
    """

    def __init__(self, rank: int, fd: int, sink: Sink, *, marked: bool = True, log: int | None = None):
        self.fd = fd
        self.sink = sink
        self.open = True
        self._mark = f"[{rank}] ".encode() if marked else b""
        self._log = log
        self._partial = b""
        os.set_blocking(fd, False)

    def read_some(self, *, ended: bool) -> None:
        """Pass on what has been written so far. `ended`: the rank has ended, what is not there will not come.

        A process that the rank left behind may still hold the pipe; its later output has no reader.
        """
        while self.open and not self.sink.full:
            try:
                data = b"" if self.sink.broken else os.read(self.fd, _LONGEST_LINE)
            except BlockingIOError:
                if not ended:
                    return
                data = b""
            if data:
                self._keep(data)
                self._append(data)
            else:
                self._close()

    def _keep(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk: the ranks go on, and what they print is still to be seen
            while self._log is not None and data:
                data = data[os.write(self._log, data) :]

    def _append(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _LONGEST_LINE:
            lines.append(self._partial)
            self._partial = b""
        self.sink.pending += b"".join(self._mark + line + b"\n" for line in lines)

    def _close(self) -> None:
        if self._partial:
            self._append(b"\n")
        os.close(self.fd)
        self.open = False
