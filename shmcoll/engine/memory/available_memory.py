"""How much shared memory is available. It is checked before memory is committed: too little kills the process later."""

import contextlib
import os
import re
from typing import NamedTuple

from shmcoll.engine.system import cgroups
from shmcoll.engine.system.text import read_text

_MEMORY_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
_FEWER = "Start fewer ranks, or end other programs"
LARGER = (
    "Ranks that mpiexec, torchrun or a shell has started meet there: start them with shmrun, which does not need it, "
    "make it larger (docker run --shm-size=1g), or remove files from it"
)


_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def amount(text: str) -> int:
    """Return bytes from text such as 4096, 64K, 1.5G or 2GiB (units of 1024), at most 2^62; 0 for text that is not a
    positive amount."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    return int(min(float(match[1]) * (1 << _UNITS[match[2].upper()]), 2.0**62)) if match else 0


class Room(NamedTuple):
    """How many bytes can still be committed, and in words: the limit, with its size and what is in use of it, and what
    changes it."""

    free: int
    limit: str = ""
    advice: str = ""


def room(place: int | str | None) -> Room:
    """Return the least room: in the file system, in memory, or in an enclosing memory cgroup. place: a descriptor or a
    folder of the file system; None if it has no limit."""
    rooms = [_memory_room(), *_cgroup_rooms()]
    return min(rooms if place is None else [_filesystem_room(place), *rooms])


def available(place: int | str | None) -> int:
    """Return the bytes that can still be committed."""
    return room(place).free


def mib(n: int) -> str:
    """Return an amount of memory as text for people."""
    return f"{n / (1 << 20):,.1f} MiB"


def _filesystem_room(place: int | str) -> Room:
    try:
        info = os.statvfs(place)
    except OSError:  # a sandbox may forbid it
        return Room(1 << 62)
    if not info.f_blocks:  # a memfd lives on a mount of the kernel's own, without a limit
        return Room(1 << 62)
    size, free = info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize
    return Room(free, f"/dev/shm has {mib(size)}, {mib(size - free)} in use", LARGER)


def _memory_room() -> Room:
    with contextlib.suppress(OSError, ValueError, KeyError):
        lines = (line.partition(":") for line in read_text("/proc/meminfo").splitlines())
        found = {name: int(text.split()[0]) << 10 for name, _, text in lines}
        size, free = found["MemTotal"], found["MemAvailable"]
        return Room(free, f"the machine has {mib(size)}, {mib(size - free)} in use", _FEWER)
    return Room(1 << 62)


def _cgroup_rooms() -> list[Room]:
    """Return the room in every memory cgroup that encloses this process."""
    rooms = []
    for version, folder in cgroups.enclosing("memory"):
        names = ("memory.max", "memory.current") if version == 2 else _MEMORY_V1
        with contextlib.suppress(OSError, ValueError):
            limit, used = (int(read_text(folder / name)) for name in names)
            text = f"the memory cgroup {folder} has {mib(limit)}, {mib(used)} in use"
            rooms.append(Room(limit - used, text, f"{_FEWER}, or raise its limit (docker run --memory)"))
    return rooms
