"""The ranks' output that passes through the launcher: lines stay whole, and the bytes of one write stay together.

A rank writes into a pipe (`shmrun/start/output_channels.py`). Its `Stream` reads that into the `Sink` of the launcher's
own stdout or stderr. Only one stream of a sink at a time has the turn. The output of other ranks waits in their pipes.
With `--tag-output` each line is marked with its rank; with `--tee` the rank's log file gets the same bytes unmarked.

A stream without the turn takes it if the turn is free and there is something to read. The stream passes on at once what
it reads, also the beginning of a line, which may be a prompt. It has the turn

    after a whole line, or a line that begins anew (\\r)   until nothing has arrived for QUIET
    within a line, or a write that has filled the pipe    until nothing has arrived for HOLD, or MOST_HOLD is over
    in any case                                           until the end of the line in which TURN or LONGEST is over;
                                                          MOST_HOLD while it fills pipes or buffers
    when the rank has ended                               until the pipe is empty

So a line is cut only if its rank takes longer than that to write it and another rank prints meanwhile. There is one
exception, for programs that write whenever a buffer is full: they cut their lines anywhere, and the rest may arrive
much later. A piece with the size of such a buffer is passed on up to its last line, and the rest is kept until its line
is complete. But a rank that has filled its pipe is in the middle of a write, and goes on when the kernel lets it run.
That counts until a piece of another size has arrived, or the turn is over.

A reader that is slow, or stopped, must not hold up the launcher, which has ranks to watch. So a sink writes only what
the reader accepts without waiting. While it is full its streams are not read, and the ranks wait, as they would for a
slow terminal. If the reader has ended, the pipes are closed, so that the ranks notice it as they would without a
launcher. If output cannot be written for another reason (a full disk), the ranks go on, and the rest is dropped.
"""

import contextlib
import os
import select
import stat
import time
from collections.abc import Iterator

from shmcoll.engine.system.text import to_bytes

QUIET = 0.005  # seconds
HOLD = 0.5  # seconds
MOST_HOLD = 2.0  # seconds
TURN = 0.2  # seconds
LONGEST = 1 << 20  # bytes of one turn
LINGER = 0.5  # seconds for which the pipe of a rank that has ended is read, because another process may hold it

_FULL = 1 << 18
_READ = 1 << 16  # bytes: as much as a pipe usually holds
_BUFFER = 4096  # bytes: programs that write whenever a buffer is full write multiples of this


class Sink:
    """Bytes on their way to descriptor `fd` of the launcher, from `streams`."""

    def __init__(self, fd: int):
        self.fd = fd
        self.pending = bytearray()
        self.broken = False
        self.has_lost_reader = False
        self.failure: OSError | None = None  # why output has been lost
        self.streams: list[Stream] = []
        self._turn: Stream | None = None
        self._turn_began = self._turn_ends = 0.0
        self._turn_bytes = 0
        self._unfinished: Stream | None = None  # the stream whose line the last byte is within
        self._most = LONGEST if stat.S_ISREG(os.fstat(fd).st_mode) else select.PIPE_BUF  # accepted at once

    @property
    def is_busy(self) -> bool:
        """Whether something is left to write, or may still come."""
        return bool(self.pending or self.streams)

    def sources(self) -> Iterator[tuple[int, int]]:
        """Return the descriptors to wait for, each with its events."""
        if self.pending:
            yield self.fd, select.POLLOUT
        for stream in self._readable():
            yield stream.fd, select.POLLIN

    def wakes(self) -> Iterator[float]:
        """Return the times at which `read` must be called, even if there is nothing to read."""
        if self._turn and len(self.pending) < _FULL:
            yield self._turn_ends
        for stream in self._readable():
            if stream.ended is not None:
                yield stream.ended + LINGER

    def read(self, ready: set[int]) -> None:
        """Read from the streams whose descriptors are ready, or whose ranks have ended."""
        while (has_turn := self._turn) and len(self.pending) < _FULL:
            if self._read(has_turn) or time.monotonic() < self._turn_ends:
                break
            if self._turn:
                self._pass_turn(has_turn)
        for stream in self._readable():
            if self._turn in (None, stream) and (stream.fd in ready or stream.ended is not None):
                self._read(stream)

    def write_some(self) -> None:
        """Call when `fd` is ready: a pipe then takes PIPE_BUF bytes without waiting, and a file takes everything."""
        try:
            written = os.write(self.fd, self.pending[: self._most])
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.has_lost_reader = True
            self.give_up()
        except OSError as e:
            self.failure = e
            self.pending.clear()
        else:
            del self.pending[:written]

    def say(self, text: str) -> None:
        """Add a line, or several, of the launcher's own."""
        self.pending += b"\n" * bool(self._unfinished) + to_bytes(text) + b"\n"
        self._unfinished = None

    def give_up(self) -> None:
        """Drop all present and later output, because it is not read any more."""
        self.broken = True
        self.pending.clear()

    def _readable(self) -> list["Stream"]:
        if len(self.pending) >= _FULL:
            return []
        return [self._turn] if self._turn else list(self.streams)

    def _read(self, stream: "Stream") -> bool:
        """Pass on what a stream has read. Returns whether there was something."""
        now = time.monotonic()
        data, is_over = stream.read(is_broken=self.broken)
        if data:
            if self._turn is not stream:
                self._turn, self._turn_began, self._turn_bytes = stream, now, 0
            self._add(stream, data)
            self._turn_bytes += len(data)
            is_within = self._unfinished is stream and b"\r" not in data.rpartition(b"\n")[2]
            self._turn_ends = now + (HOLD if is_within or stream.fills else QUIET)
            age, is_writing_on = now - self._turn_began, is_within or stream.keeps or stream.fills
            if age >= (MOST_HOLD if is_writing_on else TURN) or (self._turn_bytes >= LONGEST and not is_within):
                self._pass_turn(stream)
        if is_over:
            if self._turn is stream:
                self._turn = None
            if stream.mark and self._unfinished is stream:
                self._add(stream, b"\n")
            self.streams.remove(stream)
        return bool(data)

    def _pass_turn(self, stream: "Stream") -> None:
        self._turn = None
        stream.fills = False
        self.streams.remove(stream)
        self.streams.append(stream)

    def _add(self, stream: "Stream", data: bytes) -> None:
        if self.broken or self.failure:
            return
        if stream.mark:
            is_begun = self._unfinished is stream
            self.pending += b"" if is_begun else b"\n" * bool(self._unfinished) + stream.mark
            self.pending += data[:-1].replace(b"\n", b"\n" + stream.mark) + data[-1:]
        else:
            self.pending += data
        self._unfinished = None if data.endswith(b"\n") else stream


class Stream:
    """One rank's pipe. ended: when the rank has ended (`time.monotonic`); None while it runs.

    marked: with '[rank] ' before each line. log: descriptor of a file that gets the same bytes without marks, or None.
    """

    def __init__(self, rank: int, fd: int, *, marked: bool, log: int | None = None):
        self.fd = fd
        self.ended: float | None = None
        self.mark = to_bytes(f"[{rank}] ") if marked else b""
        self._log = log
        self._cuts = not os.isatty(fd)  # whether programs write only when their buffers are full
        self._kept = b""
        self.fills = False  # whether the program is in the middle of a write that has filled the pipe
        os.set_blocking(fd, False)

    @property
    def keeps(self) -> bool:
        """Whether it keeps the beginning of a line that the program's full buffer has cut."""
        return bool(self._kept)

    def read(self, *, is_broken: bool) -> tuple[bytes, bool]:
        """Return what can be passed on now, and whether nothing more will come. In that case the pipe is closed.

        A process that the rank left behind may still hold the pipe. LINGER seconds after the rank's end, its output has
        no reader.
        """
        come, is_over = bytearray(), is_broken
        while not is_over and len(come) < _READ:
            try:
                data = os.read(self.fd, _READ)
            except BlockingIOError:
                is_over = self.ended is not None and time.monotonic() >= self.ended + LINGER
                break
            except OSError:  # the error of a terminal that no process has open any more
                data = b""
            come += data
            is_over = not data
        if come:
            self._log_also(bytes(come))
        if is_over:
            os.close(self.fd)
        self.fills = len(come) >= _READ or (self.fills and len(come) % _BUFFER == 0)
        data = self._kept + come
        is_cut = self._cuts and len(come) % _BUFFER == 0 and not is_over and self.ended is None
        end = data.rfind(b"\n") + 1 if is_cut and len(data) < LONGEST else len(data)
        self._kept = data[end:]
        return data[:end], is_over

    def _log_also(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk: the ranks go on, and their output is still shown
            while self._log is not None and data:
                data = data[os.write(self._log, data) :]
