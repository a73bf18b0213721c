"""The control groups that enclose this process: where containers write their limits."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from shmcoll.engine.system.text import read_names

_ROOT = Path("/sys/fs/cgroup")


def enclosing(controller: str) -> Iterator[tuple[int, Path]]:
    """Return the version (1 or 2) and the folder of every cgroup with this controller, from ours up to the root."""
    with contextlib.suppress(OSError):
        for line in read_names("/proc/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                version, root = 2, _ROOT
            elif controller in controllers.split(","):
                version, root = 1, _ROOT / controller
            else:
                continue
            here = root / path.lstrip("/")
            for folder in (here, *here.parents):
                yield version, folder
                if folder == root:
                    break
