"""How much of the cores other processes use while something is measured. Nothing here loads numpy.

In a virtual machine the host takes cores away, and no process in the machine shows that. That time counts as used by
others, and is told apart (`stolen`).
"""

import os
import resource
import time
from collections.abc import Collection, Mapping

from shmbench.timing.neighbour import seconds_used

BUSY = 0.1  # of the cores
# Columns of /proc/stat
_IDLE = (3, 4)  # idle and waiting for a disk
_STOLEN = (7,)
_WORKED = tuple(i for i in range(8) if i not in _IDLE)  # those behind are included in these


class Others:
    """Watches from when it is made until `share` is called. Processes that we have started and seen end are not others.

    cores: those that are watched; by default those that this process may use. neighbour: the process of `--disturb`,
    which is not others either.
    """

    def __init__(self, cores: Collection[int] | None = None, neighbour: int | None = None) -> None:
        self._cores = set(cores if cores is not None else os.sched_getaffinity(0))
        self._neighbour = neighbour
        self._began = self._now()
        self._stolen_before = self.stolen_seconds()

    def share(self, own: float | None = None) -> float:
        """Return the share of the cores' time that others have used. own: the seconds that we have used, by default
        those of this process."""
        since, busy, ours = (now - then for now, then in zip(self._now(), self._began, strict=True))
        return max(0.0, busy - (ours if own is None else own)) / (since * len(self._cores))

    def stolen(self) -> float:
        """Return the share of the cores' time that the host of this virtual machine has taken."""
        since = time.monotonic() - self._began[0]
        return max(0.0, self.stolen_seconds() - self._stolen_before) / (since * len(self._cores))

    def stolen_seconds(self) -> float:
        return _seconds(self._cores, _STOLEN)

    def worked_seconds(self) -> float:
        """Return how long the cores have worked since their start, for whomever."""
        return _seconds(self._cores, _WORKED)

    def _now(self) -> tuple[float, float, float]:
        """Return seconds: the time, how long the cores have worked since their start, the neighbour's work apart, and
        how long they have worked for us. Raises `RuntimeError` if the neighbour has ended."""
        busy = self.worked_seconds() - (seconds_used(self._neighbour) if self._neighbour else 0.0)
        return time.monotonic(), busy, own_seconds()


class WholeRun:
    """The load from now on until `end` is called, of a run whose ranks are all children that have ended by then."""

    def __init__(self) -> None:
        self._others, self._average = Others(), os.getloadavg()[0]

    def end(self) -> dict[str, float]:
        """Return the keys of the JSON, as `RunLoad.end` does."""
        return {
            "others": round(self._others.share(), 3),
            "stolen": round(self._others.stolen(), 3),
            "average_before": self._average,
            "average_after": os.getloadavg()[0],
        }


def busy_during(load: Mapping[str, float]) -> str:
    """Return a line for people if other processes have worked meanwhile, else ""."""
    if load["others"] <= BUSY:
        return ""
    return (
        f"# busy: others used {in_words(load['others'], load['stolen'])} meanwhile; load "
        f"{load['average_before']:.2f} before, {load['average_after']:.2f} after. Measure again on a quiet machine"
    )


def in_words(others: float, stolen: float) -> str:
    """Return a share of the cores for people, with the host's part if that is worth a word."""
    host = f" ({stolen:.0%} by the host of this virtual machine)" if stolen > BUSY / 2 else ""
    return f"{others:.0%} of the cores{host}"


def _seconds(cores: Collection[int], columns: Collection[int]) -> float:
    """Return the seconds in these columns of /proc/stat, since these cores have started."""
    names = {f"cpu{core}" for core in cores}
    with open("/proc/stat") as file:
        rows = [line.split() for line in file if line.split(maxsplit=1)[0] in names]
    return sum(int(row[1 + column]) for row in rows for column in columns) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Return the CPU time of this process, and of those that it has started and seen end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
