"""What the environment asks for: SHMCOLL_TRACE and SHMCOLL_STATS, which `shmrun --trace` and `--stats` set."""

import os
from pathlib import Path
from typing import NamedTuple

from shmcoll.engine.system.switches import is_on

_TRACE, _STATS = "SHMCOLL_TRACE", "SHMCOLL_STATS"


class Asked(NamedTuple):
    """trace: the file for the timeline, or None. stats: the file for the statistics, or whether to print them."""

    trace: str | None = None
    stats: bool | str = False


_taken: Asked | None = None


def read(folder: str = "") -> Asked:
    """Return what is asked for, with names that do not depend on the current directory, which the program may change.
    folder: what they are relative to; empty: the current directory."""
    trace = str(Path(folder, os.environ[_TRACE]).absolute()) if is_on(_TRACE) else None
    if not is_on(_STATS) or (stats := os.environ[_STATS]).lower() in ("1", "true", "yes", "on"):
        return Asked(trace, is_on(_STATS))
    return Asked(trace, str(Path(folder, stats).absolute()))


def now() -> Asked:
    """Return what is asked of this process, whether or not it has joined as a rank."""
    return _taken or read()


def take() -> Asked:
    """Return what is asked of this rank. The variables leave the environment: a job that the rank starts would write
    the same files."""
    global _taken
    if _taken is None:
        _taken = read()
        for name in (_TRACE, _STATS):
            os.environ.pop(name, None)
    return _taken


def _forget() -> None:
    global _taken
    _taken = None


os.register_at_fork(after_in_child=_forget)
