"""How much of the cores other processes use while something is measured. Nothing here loads numpy."""

import os
import resource
import time
from collections.abc import Collection

BUSY = 0.1  # of the cores
_IDLE = (3, 4)  # idle and waiting for a disk
_GUESTS = 8  # counted among the others already


class Others:
    """Watches from when it is made until it is asked; processes that we have started and seen end are not others.

    `cores`: which are watched; by default those that this process may use.
    """

    def __init__(self, cores: Collection[int] | None = None) -> None:
        self._cores = set(cores if cores is not None else os.sched_getaffinity(0))
        self._began = self._now()

    def share(self, own: float | None = None) -> float:
        """Of the time that the cores had. `own`: seconds of it that we have used, by default this process."""
        since, busy, ours = (now - then for now, then in zip(self._now(), self._began, strict=True))
        return max(0.0, busy - (ours if own is None else own)) / (since * len(self._cores))

    def _now(self) -> tuple[float, float, float]:
        """Return seconds: the time, what the cores have worked since they were started, and for us."""
        names = {f"cpu{core}" for core in self._cores}
        with open("/proc/stat") as file:
            rows = [line.split() for line in file if line.split(maxsplit=1)[0] in names]
        ticks = sum(int(n) for row in rows for i, n in enumerate(row[1 : 1 + _GUESTS]) if i not in _IDLE)
        return time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), own_seconds()


def own_seconds() -> float:
    """CPU that this process has used, and those that it has started and seen end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
