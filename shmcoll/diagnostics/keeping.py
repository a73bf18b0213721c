"""Keep what the ranks do when something fails (`job_dump.py`), if that is asked for; load nothing if it is not."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.system import log

if TYPE_CHECKING:
    from shmcoll.diagnostics.job_dump import Taken

STACKS_PATIENCE = 0.3  # seconds: how long a failure is held back for the stacks of the others
_QUIET = (records.INTERRUPTED,)  # causes that are no failures: Ctrl-C is one of them


def take(arena: Arena, cause: int, text: str, **known: Any) -> "Taken | None":
    """Return what the ranks do before they learn of a failure. cause: as in its record. All else is as for
    `job_dump.take`."""
    if not os.environ.get("SHMCOLL_DUMP") or cause in _QUIET:
        return None
    from shmcoll.diagnostics import job_dump

    return job_dump.take(arena, job_dump.KINDS[cause], text, **known)


def keep(taken: "Taken | None", text: str = "", say: Callable[[str], None] = log.error) -> None:
    """Write it. text: as for `job_dump.keep`. say: is called with why that cannot be done."""
    if taken:
        from shmcoll.diagnostics import job_dump

        if why := job_dump.keep(taken, text):
            say(why)
