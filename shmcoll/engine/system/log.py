"""What shmcoll says by itself, such as that it compiles, or that a failure was lost: records of Python's `logging`.

The logger is "shmcoll". Its records have two attributes more than others: `rank`, and `job`, the number of the job that
`shmrun ps` shows as its nonce; None in a process that is no rank. In a program that has configured `logging`, its
handlers get the records. In any other, a line on standard error begins with "shmcoll: ".

The level of the logger is the program's to set. If it has not, SHMCOLL_LOG_LEVEL sets it, which comes from
`shmrun --log-level` or from the caller of `shmcoll.run`. Without either, a program that has configured nothing sees
records from INFO on, and any other those from the level of its root logger on.
"""

import os
import sys
from typing import TYPE_CHECKING, Final

from shmcoll.engine.system.text import show

if TYPE_CHECKING:
    import logging

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}

_VARIABLE = "SHMCOLL_LOG_LEVEL"

_place: dict[str, int | str | None] = {"rank": None, "job": None}


def check_level() -> None:
    """Raise `ValueError` if the environment asks for a level that there is not."""
    if (given := _given()) and _number(given) is None:
        raise ValueError(f"{_VARIABLE}={given!r} is not one of {', '.join(LEVELS)}")


def note_joined(rank: int, job: str) -> None:
    """Have later records contain the rank that this process is, and its job."""
    _place.update(rank=rank, job=job[:8])
    debug(f"rank {rank} has joined job {job[:8]}")


def debug(text: str) -> None:
    """Say what only somebody who looks for a mistake wants to know."""
    if "logging" in sys.modules or _given():  # importing it takes as long as joining a job
        _say("debug", text)


def info(text: str) -> None:
    """Say what goes on."""
    _say("info", text)


def warning(text: str) -> None:
    """Say what may be a mistake, or is not as it should be."""
    _say("warning", text)


def error(text: str) -> None:
    """Say what has failed, if no exception can."""
    _say("error", text)


def for_ranks() -> dict[str, str]:
    """Return the variable that gives ranks the level that this program has chosen; empty if it has chosen none."""
    if "logging" not in sys.modules or not ((logger := _logger()).level or (logger.hasHandlers() and not _given())):
        return {}
    return {_VARIABLE: str(logger.getEffectiveLevel())}


def _logger() -> "logging.Logger":
    import logging

    return logging.getLogger("shmcoll")


def _say(name: str, text: str) -> None:
    level, logger = LEVELS[name], _logger()
    if not logger.level and (given := _number(_given())):
        logger.setLevel(given)
    if logger.hasHandlers():
        logger.log(level, text, extra=_place, stacklevel=3)
    elif level >= (logger.level or LEVELS["info"]) and level > logger.manager.disable and sys.stderr:
        show(sys.stderr, f"shmcoll: {text}\n")


def _given() -> str:
    return os.environ.get(_VARIABLE, "")


def _number(level: str) -> int | None:
    """Return the number of a level; a caller of `shmcoll.run` passes numbers, since its levels may have no name."""
    return LEVELS.get(level.lower(), int(level) if level.isdecimal() else None)
