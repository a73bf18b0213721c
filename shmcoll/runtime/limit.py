"""The limit of a wait in Python, by the rules of the waits in native code (`engine/protocol/wait.py`).

Time in which this process was stopped does not count, and the limit begins anew while a rank of the job compiles.
"""

import time

from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena

_FROZEN = 0.2  # seconds between two looks after which this process was stopped


class Limit:
    """A limit of `seconds` from now on. The caller looks often, and naps in between."""

    def __init__(self, arena: Arena, seconds: float):
        self._arena, self.seconds = arena, seconds
        self._looked = time.monotonic()
        self._end = self._looked + seconds

    def has_passed(self) -> bool:
        """Return whether the limit has passed."""
        now = time.monotonic()
        if now > self._looked + _FROZEN:
            self._end += now - self._looked
        self._looked = now
        if now > self._end and records.some_rank_compiles(self._arena):
            self._end = now + self.seconds
        return now > self._end
