"""Variables that a rank reads when it joins the job, and that the program sets afterwards: they have no effect.

It is said once, at the next first call of a collective, and by the error of a wait that has reached its limit.
"""

import os
import sys
import warnings

from shmcoll.engine.system.tracebacks import is_of_program

#: what to do instead
_READ_AT_JOINING = {
    "SHMCOLL_TIMEOUT": "set comm.timeout",
    "SHMCOLL_JOIN_TIMEOUT": "set it before shmcoll.init()",
    "SHMCOLL_HEAP": "set it before shmcoll.init(), on rank 0",
}
_read: dict[str, str | None] = {}


def note() -> None:
    """Keep the values that this rank reads now."""
    _read.update({name: os.environ.get(name) for name in _READ_AT_JOINING})


def too_late() -> str:
    """Return what has been set since, and what to do; empty if nothing has."""
    changed = [name for name, value in _read.items() if os.environ.get(name, value) != value]
    return "; ".join(
        f"{name}={os.environ[name]} was set after shmcoll.init(), which reads it, so it has no effect: "
        f"{_READ_AT_JOINING[name]}"
        for name in changed
    )


def warn() -> None:
    """Warn of what has been set since, once."""
    if told := too_late():
        note()
        frame, level = sys._getframe(1), 2
        while frame.f_back and not is_of_program(frame.f_code.co_filename):
            frame, level = frame.f_back, level + 1
        warnings.warn(told, RuntimeWarning, stacklevel=level)
