"""How many cores this process may really use: affinity, and the CPU quota of its cgroups."""

import contextlib
import math
import os

from shmcoll.engine.system import cgroups
from shmcoll.engine.system.text import read_text

MOST_THREADS = 64  # that a rank may have


def usable_cores() -> int:
    """Return how many cores this process may use, at least 1. Ranks beyond this number take turns, so waiting ranks
    must give their core away at once."""
    return min([len(allowed_cores()), *(max(1, math.ceil(quota)) for quota in _quotas())])


def allowed_cores() -> set[int]:
    """Return the cores on which this process may run; all of them if the system does not say."""
    try:
        return os.sched_getaffinity(0)
    except OSError:  # a sandbox may forbid it
        return set(range(os.cpu_count() or 1))


def _quotas() -> list[float]:
    """Return the CPU quotas, in cores, of all cgroups that enclose this process."""
    quotas = []
    for version, folder in cgroups.enclosing("cpu"):
        with contextlib.suppress(OSError, ValueError):
            if version == 2:
                quota, period = read_text(folder / "cpu.max").split()
            else:
                quota = read_text(folder / "cpu.cfs_quota_us")
                period = read_text(folder / "cpu.cfs_period_us")
            if int(quota) > 0:
                quotas.append(int(quota) / int(period))
    return quotas
