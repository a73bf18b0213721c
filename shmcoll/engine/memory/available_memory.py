"""How much shared memory is available. It is checked before memory is committed: too little kills the process later."""

import contextlib
import os
import re

from shmcoll.engine.system import cgroups
from shmcoll.engine.system.text import read_text

_MEMORY_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")


_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def amount(text: str) -> int:
    """Return bytes from text such as 4096, 64K, 1.5G or 2GiB (units of 1024), at most 2^62; 0 for text that is not a
    positive amount."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    return int(min(float(match[1]) * (1 << _UNITS[match[2].upper()]), 2.0**62)) if match else 0


def available(place: int | str | None) -> int:
    """Return the bytes that can still be committed: the least room in the file system, the memory, and every enclosing
    memory cgroup. place: a descriptor or a folder of the file system; None if it has no limit."""
    rooms = [_memory_room(), *_cgroup_rooms()]
    return min(rooms if place is None else [filesystem_room(place), *rooms])


def filesystem_room(place: int | str) -> int:
    """Return how many bytes the file system behind a descriptor, or of a folder, can still take."""
    try:
        info = os.statvfs(place)
    except OSError:  # a sandbox may forbid it
        return 1 << 62
    # A memfd lives on a mount of the kernel's own without a limit, which reports no blocks at all.
    return info.f_bavail * info.f_frsize if info.f_blocks else 1 << 62


def _memory_room() -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in read_text("/proc/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 1 << 62


def _cgroup_rooms() -> list[int]:
    """Return the limit minus the usage of every memory cgroup that encloses this process."""
    rooms = []
    for version, folder in cgroups.enclosing("memory"):
        limit, usage = ("memory.max", "memory.current") if version == 2 else _MEMORY_V1
        with contextlib.suppress(OSError, ValueError):
            rooms.append(int(read_text(folder / limit)) - int(read_text(folder / usage)))
    return rooms
