"""A text that is shown again and again: in place on a terminal, one block after the other elsewhere.

On a terminal it takes the alternate screen, as `less` and `top` do, so nothing that was there is lost. Each block is
cut to the size that the terminal has now. The terminal gets its screen back however this process ends, except by
SIGKILL, and while it is stopped.
"""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType

from shmcoll.engine.system.text import to_bytes

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # the alternate screen, without a cursor
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


class Screen:
    """Where blocks are shown, as a context. `pause` waits between two of them."""

    def __init__(self) -> None:
        self.is_terminal = bool(sys.stdout and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb")

    def __enter__(self) -> "Screen":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
        if self.is_terminal:
            for signum in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(signum, lambda number, _: sys.exit(128 + number))
            signal.signal(signal.SIGTSTP, self._stop)
            self._write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_terminal:
            self._write(_LEAVE)

    def show(self, lines: Sequence[str], last: Sequence[str]) -> None:
        """Show a block. last: lines that are shown in any case, below the others."""
        if not self.is_terminal:
            print(*lines, *last, "", sep="\n", flush=True)
            return
        width, height = os.get_terminal_size(sys.stdout.fileno())
        width, height = width or 80, height or 24  # a terminal that nobody has told its size has 0
        below = [piece for line in last for piece in _pieces(line, width)][:height]
        room = height - len(below)
        if len(lines) > room:
            lines = [*lines[: max(room - 1, 0)], f"... {len(lines) - room + 1} more lines"][:room]
        shown = [*(line[:width] for line in lines), *below]
        self._write(_HOME + "\n".join(line + _REST_OF_LINE for line in shown) + _REST_OF_SCREEN)

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the terminal has another size."""
        signal.sigtimedwait({signal.SIGWINCH}, seconds)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._write(_LEAVE)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._write(_ENTER)

    def _write(self, text: str) -> None:
        """Write to the terminal. Not through `sys.stdout`, into which a signal handler cannot write while it writes."""
        data = to_bytes(text)
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]


def _pieces(line: str, width: int) -> list[str]:
    return [line[at : at + width] for at in range(0, len(line), max(width, 1))]
