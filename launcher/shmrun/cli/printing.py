"""The output of `shmrun` itself: help, version, `doctor`, `ps`, `inspect`. `shmbench` prints its tables this way, too.

If the reader ends (`shmrun inspect | head`), SIGPIPE ends such a command without a message, as it ends `ls` and `git`.
Python ignores that signal by default and raises an exception instead, whose traceback does not help. A job of which
nobody reads the messages goes on.
"""

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator

#: errors of a write
_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def tell(text: str) -> None:
    """Print to standard error, if that is open and can be written."""
    if sys.stderr:  # for None, `print` would take the standard output
        try:
            print(text, file=sys.stderr, flush=True)
        except OSError:
            drop(2)


def one_line(text: str) -> str:
    """Return a text in one line, on which a terminal does not act: what it would act on as an escape."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def drop(number: int) -> None:
    """Drop what is written to a standard descriptor: the rest of a buffer would fail again at the interpreter's end,
    which prints a warning and changes the exit code."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have SIGINT raise `KeyboardInterrupt` in the block, so that it can clean up, and then end this process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
        raise


def end_with_reader() -> None:
    """Make this process end by SIGPIPE when it prints for a reader that has ended."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def printing(name: str, show: Callable[[], int]) -> int:
    """Call `show`, which prints, and make sure that everything has been written. Returns the exit code."""
    end_with_reader()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files and processes may be anything
    try:
        code = show()
        if sys.stdout:  # None when it is closed
            sys.stdout.flush()
    except OSError as e:
        if e.filename is not None or e.errno not in _FAILURES:
            raise
        tell(f"{name}: cannot write the output: {e.strerror}")
        drop(1)
        return 1
    return code
