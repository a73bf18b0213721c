"""What `shmrun` prints itself: help, version, `doctor`, `ps`, `inspect`; `shmbench` prints its tables so, too.

A reader that goes away (`shmrun inspect | head`) ends such a command without a word, as it ends `ls` and `git`: by
SIGPIPE. Python ignores that signal for itself and raises an exception instead, whose traceback is of no use.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable

#: what a write may fail with
_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def end_with_reader() -> None:
    """From now on this process ends by SIGPIPE when it prints for a reader that has gone."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def printing(name: str, show: Callable[[], int]) -> int:
    """Call `show`, which prints, and see to it that all has been written; the exit code."""
    end_with_reader()
    try:
        code = show()
        if sys.stdout:  # None when it is closed
            sys.stdout.flush()
    except OSError as e:
        if e.filename is not None or e.errno not in _FAILURES:
            raise
        print(f"{name}: cannot write the output: {e.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left in the buffer would fail again at the end
        return 1
    return code
