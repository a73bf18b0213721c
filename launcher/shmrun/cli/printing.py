"""The output of `shmrun` itself: help, version, `doctor`, `ps`, `inspect`. `shmbench` prints its tables this way, too.

If the reader ends (`shmrun inspect | head`), SIGPIPE ends such a command without a message, as it ends `ls` and `git`.
Python ignores that signal by default and raises an exception instead, whose traceback does not help.
"""

import errno
import io
import os
import signal
import sys
from collections.abc import Callable

#: errors of a write
_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


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
        print(f"{name}: cannot write the output: {e.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # otherwise the rest of the buffer would fail again at the end
        return 1
    return code
