"""How much of the cores others have used while something was measured."""

import os
import resource
import time

_IDLE = (3, 4)  # idle and waiting for a disk
_GUESTS = 8  # counted among the others already


class Others:
    """Watches from when it is made until it is asked; processes that we have started and seen end are not others."""

    def __init__(self) -> None:
        self._cores = os.sched_getaffinity(0)
        self._began = self._now()

    def share(self) -> float:
        """Of the time that our cores had."""
        since, busy, own = (now - then for now, then in zip(self._now(), self._began, strict=True))
        return max(0.0, busy - own) / (since * len(self._cores))

    def _now(self) -> tuple[float, float, float]:
        """Seconds: the time, what our cores have worked since they were started, and for us."""
        names = {f"cpu{core}" for core in self._cores}
        with open("/proc/stat") as file:
            rows = [line.split() for line in file if line.split(maxsplit=1)[0] in names]
        ticks = sum(int(n) for row in rows for i, n in enumerate(row[1 : 1 + _GUESTS]) if i not in _IDLE)
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), sum(u.ru_utime + u.ru_stime for u in used)
