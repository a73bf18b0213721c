"""What `shmrun doctor` finds, as values."""

from enum import Enum
from typing import NamedTuple


class Level(Enum):
    """ERROR: ranks cannot run."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(NamedTuple):
    """`subject`: what was looked at, `text`: what there is, `advice`: what to do about it, if anything.

    `prevents_trial`: two ranks could not meet, or would have to compile first. An ERROR always does.
    """

    level: Level
    subject: str
    text: str
    advice: str = ""
    prevents_trial: bool = False


def amount(size: int) -> str:
    """Return bytes, for people."""
    unit = "GiB" if size >= 1 << 30 else "MiB"
    return f"{size / (1 << (30 if unit == 'GiB' else 20)):,.1f} {unit}"
