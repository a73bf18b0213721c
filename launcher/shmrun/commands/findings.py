"""The findings of `shmrun doctor`, as values."""

from enum import Enum
from typing import NamedTuple


class Level(Enum):
    """The level of a finding. ERROR: ranks cannot run."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(NamedTuple):
    """One finding. subject: what was checked. text: the result. advice: what to do about it, if anything.

    prevents_trial: two ranks could not meet, or would have to compile first. An ERROR always prevents the trial.
    """

    level: Level
    subject: str
    text: str
    advice: str = ""
    prevents_trial: bool = False


def amount(size: int) -> str:
    """Return an amount of bytes as text for people."""
    unit = "GiB" if size >= 1 << 30 else "MiB"
    return f"{size / (1 << (30 if unit == 'GiB' else 20)):,.1f} {unit}"
