"""A rank offers its Python stacks to its launcher, to other ranks, and to `shmrun inspect` (`stack_client.py`).

On SIGNAL, faulthandler writes the stack of the thread that takes the signal into a file in memory, which stays open. It
does so in the signal handler itself, so it works while the rank is stuck in native code. It could write the stacks of
all threads at once, but without the interpreter's lock: if another thread runs Python code, that can crash the rank. So
threads are asked one by one. Every rank loads this file, so it is short.
"""

import contextlib
import faulthandler
import os
import signal

from shmcoll.engine.system.descriptors import File, file_of

SIGNAL = signal.SIGRTMAX - 7  # a real-time signal, which programs hardly ever use
FILE = "shmcoll-stacks"

_offered: tuple[int, int, File | None] | None = None  # pid, descriptor, and what that was


def offer() -> None:
    """Make this process write its stacks when asked. Calling it again has no effect, unless the file has been
    closed."""
    global _offered
    is_open = _offered is not None and file_of(_offered[1]) == _offered[2]
    if _offered and _offered[0] == os.getpid() and is_open:
        return
    with contextlib.suppress(OSError, RuntimeError):
        fd = os.memfd_create(FILE, os.MFD_CLOEXEC)
        faulthandler.register(SIGNAL, file=fd, all_threads=False)
        if _offered and is_open:
            os.close(_offered[1])  # descriptor of the process that has forked this one
        _offered = os.getpid(), fd, file_of(fd)
