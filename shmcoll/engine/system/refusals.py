"""System calls that this machine refuses: which one it was, in words.

A container's seccomp profile, or a sandbox, refuses calls with EPERM or ENOSYS. Python's error does not name the call.
The source line that made the call does.
"""

import errno
import linecache
import traceback


def refused(error: BaseException) -> str | None:
    """Return which call was refused, and what to do, for a message; None if the error is of another kind."""
    if not isinstance(error, OSError) or error.errno not in (errno.EPERM, errno.ENOSYS):
        return None
    return (
        f"this machine refuses {_call(error)} ({error.strerror}), perhaps by a container's seccomp profile: allow the "
        f"call, or try docker run --security-opt seccomp=unconfined"
    )


def _call(error: OSError) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.line and not frame.line.startswith(("raise", "with ", "yield")):
            line = linecache.getline(frame.filename, frame.lineno or 0)
            return line[frame.colno : frame.end_colno] if frame.lineno == frame.end_lineno else frame.line
    return "a system call"
