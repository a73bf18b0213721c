"""How much cache the cores of this process have: what Linux says in /sys."""

from collections.abc import Iterator
from pathlib import Path

from shmcoll.engine.system.cores import allowed_cores
from shmcoll.engine.system.text import read_text

CPUS = Path("/sys/devices/system/cpu")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

USUAL_OWN_CACHE, LARGEST_OWN_CACHE = 1 << 20, 4 << 20


def last_level_caches() -> list[int]:
    """Return the size in bytes of each last-level cache that a core of this process uses. Empty if Linux does not say
    (some virtual machines and containers hide it).

    Cost: a few small files per cache, not per core.
    """
    cores, sizes = allowed_cores(), []
    try:
        while cores:
            size, sharers = _last_level(min(cores))
            sizes.append(size)
            cores -= sharers | {min(cores)}
    except (OSError, ValueError, LookupError):
        return []
    return sizes


def own_cache() -> int:
    """Return the size in bytes of the second-level cache of a core of this process, which is usually its own; 1 MiB if
    Linux does not say that, and at most 4 MiB: a larger one is shared by several cores."""
    try:
        core = min(allowed_cores())
        sizes = [_size(index) for index in _caches(core) if int(read_text(index / "level")) == 2]
        return min(sizes[0], LARGEST_OWN_CACHE)
    except (OSError, ValueError, LookupError):
        return USUAL_OWN_CACHE


def _caches(core: int) -> Iterator[Path]:
    return (CPUS / f"cpu{core}" / "cache").glob("index*")


def _size(index: Path) -> int:
    size = read_text(index / "size").strip()
    return int(size[:-1]) * UNITS[size[-1]]


def _last_level(core: int) -> tuple[int, set[int]]:
    """Return the size of the last cache of a core, and the cores that share it."""
    last = max(_caches(core), key=lambda index: int(read_text(index / "level")))
    return _size(last), set(_numbers(read_text(last / "shared_cpu_list")))


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers of a list such as 0-3,8."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
