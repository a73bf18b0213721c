"""Wait for an event, not for a time.

A sleep holds a rank, or gives another one its turn, only by luck: on a busy machine that one is late. So a test waits
until a condition is true, with a limit that only a job that hangs reaches.
"""

import time
from collections.abc import Callable
from typing import Any

from tests.support import switches
from tests.support.patience import PATIENCE


def until(condition: Callable[[], Any], otherwise: str = "", seconds: float = PATIENCE, pause: float = 0.0005) -> Any:
    """Return the first true value of the condition. Fail the test if it has none in so many seconds.

    otherwise: what the failure says. pause: seconds between two looks; a look that starts a process leaves a core to
    the others by a longer one.
    """
    __tracebackhide__ = True
    value = _poll(condition, seconds, pause)
    assert value, otherwise or f"this has not come true in {seconds} s"
    return value


def comes_true(condition: Callable[[], Any], seconds: float = PATIENCE) -> bool:
    """Return whether the condition is true within so many seconds."""
    return bool(_poll(condition, seconds, 0.0005))


def _poll(condition: Callable[[], Any], seconds: float, pause: float) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(pause)
    return value


def until_asleep(comm: Any, *ranks: int) -> None:
    """Wait until these ranks of a communicator, or else this rank, sleep because they wait for others in it."""
    waiting = ranks or (comm.rank,)
    until(lambda: all(switches.is_asleep(comm, rank) for rank in waiting), f"ranks {waiting} do not sleep")


def until_ended(comm: Any) -> None:
    """Wait until the group has ended by a failure."""
    until(lambda: switches.has_ended(comm), "the group has not ended")
