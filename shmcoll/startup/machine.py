"""Which machine a process is on, so far as memory can be shared there."""

import os
from pathlib import Path

from shmcoll.engine.system.text import read_text


def identity() -> tuple[str, int, str]:
    """Return what is equal for two processes exactly if they can share memory: the boot, the /dev/shm, and
    SHMCOLL_NODE. So two containers of one host differ, and a user can pretend that processes are on several machines.
    """
    boot = read_text("/proc/sys/kernel/random/boot_id").strip()
    return boot, _memory_device(), os.environ.get("SHMCOLL_NODE", "")


def _memory_device() -> int:
    try:
        return Path("/dev/shm").stat().st_dev
    except OSError:
        return 0
