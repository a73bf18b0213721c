"""How many cores this process may really use: affinity, and the CPU quota of its cgroups."""

import contextlib
import math
import os
from pathlib import Path


def usable_cores() -> int:
    """At least 1. Ranks beyond this number take turns, so waiting ranks must give their core away at once."""
    cores = len(os.sched_getaffinity(0))
    for quota in _quotas():
        cores = min(cores, max(1, math.ceil(quota)))
    return cores


def _quotas() -> list[float]:
    """CPU quotas, in cores, of every cgroup that encloses this process; versions 1 and 2."""
    quotas = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            root = Path("/sys/fs/cgroup") if controllers == "" else Path("/sys/fs/cgroup/cpu")
            if controllers and "cpu" not in controllers.split(","):
                continue
            here = root / path.lstrip("/")
            for folder in (here, *here.parents):
                with contextlib.suppress(OSError, ValueError):
                    if controllers == "":
                        quota, period = (folder / "cpu.max").read_text().split()
                    else:
                        quota = (folder / "cpu.cfs_quota_us").read_text()
                        period = (folder / "cpu.cfs_period_us").read_text()
                    if int(quota) > 0:
                        quotas.append(int(quota) / int(period))
                if folder == root:
                    break
    return quotas
