"""How waits in Python poll, nap and look around: all their numbers, and their limit. Native code has its own, in
`engine/protocol/wait.py`; waits between nodes have theirs, in `nodes/mpi/waiting.py`. Times are in seconds.

A limit follows the rules of native code. Time in which this process was stopped does not count, and the limit begins
anew while a rank of the job compiles.
"""

import time

from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.protocol.wait import FROZEN as _SLICES
from shmcoll.engine.protocol.wait import SLICE_NS

SLICE = SLICE_NS / 1e9  # between two looks at the lives of others
FROZEN = _SLICES * SLICE  # between two looks, after which this process may have been stopped
NAP = 1e-3  # the longest between two looks at what another process or thread does
SOON = 5e-4  # the same of a look that takes a call of native code
YIELD = 1e-6  # long enough to let another thread have the GIL

# --- posted receives and the worker
TESTS = 64  # for a message, before another thread gets the GIL: the message may be left to the worker
SHIFT = 0.25  # for which a thread in a blocking receive leaves the list to others
SAMPLE = 0.01  # between two readings of the processor time, which is a system call
IDLE = 1 / 16  # the largest part of those seconds in which a process that was stopped has computed
READING = 0.05  # of a test of a receive, for another thread that reads its short message
SHORT_NAP, LONG_NAP = 2e-4, 5e-3  # for which the worker leaves receives to the threads that wait for them
WATCH = 0.05  # without a look at the list before the worker sleeps until it is woken

# --- sends
HEAP_PATIENCE = 5.0  # without memory, and without anything moving, before a send is refused
LOOKS = 20  # for the receiver of a synchronous send, before the first nap
FIRST_NAP = 5e-5  # after these; each nap is twice as long as the one before

# --- ends
TELL_AFTER = 3.0  # before a line says what keeps a communicator or the program from ending
LAUNCHER_PATIENCE = 0.5  # of a survivor, for the launcher to say how a peer has ended
KEEPING_PATIENCE = 1.0  # the same, if the launcher first keeps what the ranks do (SHMCOLL_DUMP)
LEAVING_PATIENCE = 3.0  # of a rank that leaves, for the receivers of its messages; with SHMCOLL_CHECK only
SITES_PATIENCE = 0.1  # of a rank that reports a mismatch or a circle, for the others to say where they are


class Limit:
    """A limit of `seconds` from now on. The caller looks often, and naps in between."""

    def __init__(self, arena: Arena, seconds: float):
        self._arena, self.seconds = arena, seconds
        self._looked = time.monotonic()
        self._end = self._looked + seconds

    def has_passed(self) -> bool:
        """Return whether the limit has passed."""
        now = time.monotonic()
        if now > self._looked + FROZEN:
            self._end += now - self._looked
        self._looked = now
        if now > self._end and records.some_rank_compiles(self._arena):
            self._end = now + self.seconds
        return now > self._end
