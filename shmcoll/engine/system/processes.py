"""The identity of processes: a pid alone may be used again."""

import os
from collections.abc import Iterator
from pathlib import Path

from shmcoll.engine.system.text import read_text
from shmcoll.errors import ShmcollError


def check_proc() -> None:
    """Raise `ShmcollError` if /proc is missing: processes, threads and descriptors are found there."""
    if not Path("/proc/self/stat").exists():
        raise ShmcollError(
            "/proc is not mounted, and shmcoll finds processes and descriptors there. "
            "Mount it (mount -t proc proc /proc), or let the container have it."
        )


def process_start(pid: int) -> int:
    """Return the start time of a living process in clock ticks since boot; 0 if it has ended, waited for or not.

    Together with the pid it identifies a process forever.
    """
    try:
        return start_of(pid)
    except (OSError, ValueError, IndexError):
        return 0


def has_ended(pid: int, start: int) -> bool:
    """Return whether the process of this pid and start time (0: not known) has ended, waited for or not.

    A process that cannot be checked counts as alive. If /proc cannot be read, perhaps because this process may open no
    more files, any process that has the pid is taken for the one that is meant.
    """
    if pid <= 0:
        return True
    try:
        found = start_of(pid)
        return not found or (start != 0 and found != start)
    except (OSError, ValueError, IndexError):
        return _is_unused(pid)


def start_of(pid: int) -> int:
    """Return the same as `process_start`, for a process that exists. Raises `OSError` if it cannot be read."""
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def ancestors() -> Iterator[tuple[int, str]]:
    """Yield pid and name of each ancestor of this process that can be read, the parent first."""
    pid = os.getppid()
    while pid > 1:
        try:
            before, _, after = read_text(f"/proc/{pid}/stat").rpartition(")")
        except OSError:
            return
        yield pid, before.partition("(")[2]
        pid = int(after.split()[1])


def _is_unused(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # a process of another user
        return False
    return False
