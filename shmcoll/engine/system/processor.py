"""What Linux reports about the processor, in /proc/cpuinfo."""

from functools import cache

from shmcoll.engine.system.handlers import ignored
from shmcoll.engine.system.text import read_text

_BEGINNING = 16384  # bytes; all of it takes long on machines with hundreds of cores


@cache
def first_core() -> dict[str, str]:
    """Return what is reported about the first core, by name; empty if Linux does not say."""
    with ignored(OSError):
        lines = (line.partition(":") for line in read_text("/proc/cpuinfo", _BEGINNING).split("\n\n")[0].splitlines())
        return {name.strip(): value.strip() for name, _, value in lines}
    return {}


def features() -> frozenset[str]:
    """Return the features that programs can use, by Linux's names."""
    return frozenset((first_core().get("flags") or first_core().get("Features") or "").split())


def kind() -> tuple[str, ...]:
    """Return what tells kinds of processors apart, and does not change with time."""
    return (*(first_core().get(name, "") for name in _OF_KIND), *sorted(features()))


_OF_KIND = (
    *("vendor_id", "cpu family", "model", "model name", "stepping"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
)
