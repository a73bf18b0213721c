"""System calls that this machine refuses: which one it was, and by what, in words.

A container's seccomp profile, or a sandbox, refuses calls with EPERM or ENOSYS. Python's error does not name the call.
The source line of ours that made the call does.
"""

import contextlib
import errno
import linecache
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from shmcoll.engine.system.text import read_text
from shmcoll.errors import ShmcollError


@contextlib.contextmanager
def in_words() -> Iterator[None]:
    """Raise `ShmcollError` in place of the error of a system call that this machine refuses."""
    try:
        yield
    except OSError as e:
        if reason := refused(e):
            raise ShmcollError(reason) from None
        raise


def refused(error: BaseException) -> str | None:
    """Return which call was refused, by what, and what to do, for a message; None if the error is of another kind, or
    of a call that is not ours."""
    if not isinstance(error, OSError):
        return None
    if error.filename == os.devnull and error.errno in (errno.ENOENT, errno.EACCES, errno.ENXIO):
        return f"{os.devnull} cannot be opened ({error.strerror}). Mount /dev, or: mknod -m 666 {os.devnull} c 1 3"
    if error.errno not in (errno.EPERM, errno.ENOSYS):
        return None
    if not (call := _call(error)):
        return None
    return f"this machine refuses {call} ({os.strerror(error.errno)}): {_by(error.errno)}"


def _by(error: int) -> str:
    with contextlib.suppress(OSError):
        if "\nSeccomp:\t0\n" in read_text("/proc/self/status"):
            if error == errno.ENOSYS:
                return "its kernel does not have the call. Use a newer kernel"
            return "no seccomp filter is in force, so it is the kernel or a security module (AppArmor, SELinux)"
    return (
        "a seccomp filter, as containers have one, is in force. Allow the call, or try "
        "docker run --security-opt seccomp=unconfined"
    )


def _call(error: OSError) -> str:
    """Return the call in the words of the latest line of ours; '' if code that is not ours made the call from there."""
    names = [_package(frame.f_globals) for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = [number for number, name in enumerate(names) if name in ("shmcoll", "shmrun")]
    if not ours or any(name not in sys.stdlib_module_names for name in names[ours[-1] + 1 :]):
        return ""
    if error.strerror and error.strerror != os.strerror(error.errno or 0):  # a C function, which the line names
        return error.strerror
    frame = traceback.extract_tb(error.__traceback__)[ours[-1]]
    line = linecache.getline(frame.filename, frame.lineno or 0)
    if not line:  # a frozen program
        return f"a call of {frame.name}"
    if frame.lineno == frame.end_lineno:
        return line[frame.colno : frame.end_colno]
    return f"{line[frame.colno :].partition('(')[0]}(...)"


def _package(of: dict[str, Any]) -> str:
    """Return the package of a module, that of one that Python runs as `__main__` included."""
    spec = of.get("__spec__")
    return str(spec.name if spec else of.get("__name__", "")).partition(".")[0]
