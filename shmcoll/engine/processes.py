"""Telling processes apart: a pid alone may be used again."""

import os
from pathlib import Path

from shmcoll.errors import ShmcollError


def check_proc() -> None:
    """Raise `ShmcollError` where /proc is missing: processes, threads and descriptors are found there."""
    if not os.access("/proc/self/stat", os.F_OK):
        raise ShmcollError(
            "/proc is not mounted, and shmcoll finds processes and descriptors there. "
            "Mount it (mount -t proc proc /proc), or let the container have it."
        )


def process_start(pid: int) -> int:
    """Start time of a living process in clock ticks since boot; 0 when it has ended, waited for or not.

    With the pid it names a process for ever.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0
