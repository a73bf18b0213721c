"""How busy the machine is while a test measures a promised limit of time.

A process sleeps for moments, and notes for how long it has waited for a core after them. A limit is allowed SEVERAL
times that, because several processes have to get a core one after another before the last one knows.
"""

import ctypes
import mmap
import os
import signal
import time

import numpy as np

MOMENT = 0.002  # seconds
SEVERAL = 10
PR_SET_PDEATHSIG = 1


class Allowed:
    """`allowed(seconds)`: a limit, and what the machine has made any process wait since the test began."""

    def __init__(self) -> None:
        self._worst = np.frombuffer(mmap.mmap(-1, 8), np.float64)
        self._pid = os.fork()
        if self._pid == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            while True:
                begun = time.monotonic()
                time.sleep(MOMENT)
                self._worst[0] = max(self._worst[0], time.monotonic() - begun - MOMENT)

    def __call__(self, seconds: float) -> float:
        return seconds + SEVERAL * float(self._worst[0])

    def end(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
