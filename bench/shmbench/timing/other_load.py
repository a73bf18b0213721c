"""How much of the cores other processes use while something is measured. Nothing here loads numpy."""

import os
import resource
import time
from collections.abc import Collection

from shmbench.timing.neighbour import seconds_used

BUSY = 0.1  # of the cores
_IDLE = (3, 4)  # idle and waiting for a disk
_GUESTS = 8  # included in the others already


class Others:
    """Watches from when it is made until `share` is called. Processes that we have started and seen end are not others.

    cores: those that are watched; by default those that this process may use. neighbour: the process of `--disturb`,
    which is not others either.
    """

    def __init__(self, cores: Collection[int] | None = None, neighbour: int | None = None) -> None:
        self._cores = set(cores if cores is not None else os.sched_getaffinity(0))
        self._neighbour = neighbour
        self._began = self._now()

    def share(self, own: float | None = None) -> float:
        """Return the share of the cores' time that others have used. own: the seconds that we have used, by default
        those of this process."""
        since, busy, ours = (now - then for now, then in zip(self._now(), self._began, strict=True))
        return max(0.0, busy - (ours if own is None else own)) / (since * len(self._cores))

    def _now(self) -> tuple[float, float, float]:
        """Return seconds: the time, how long the cores have worked since their start, the neighbour's work apart, and
        how long they have worked for us. Raises `RuntimeError` if the neighbour has ended."""
        busy = _worked(self._cores) - (seconds_used(self._neighbour) if self._neighbour else 0.0)
        return time.monotonic(), busy, own_seconds()


def _worked(cores: Collection[int]) -> float:
    """Return the seconds that these cores have worked since their start."""
    names = {f"cpu{core}" for core in cores}
    with open("/proc/stat") as file:
        rows = [line.split() for line in file if line.split(maxsplit=1)[0] in names]
    ticks = sum(int(n) for row in rows for i, n in enumerate(row[1 : 1 + _GUESTS]) if i not in _IDLE)
    return ticks / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Return the CPU time of this process, and of those that it has started and seen end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
