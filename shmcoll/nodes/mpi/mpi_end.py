"""The end of MPI after ranks could not be reached: it has a limit, too.

mpi4py calls MPI_Finalize when the interpreter has ended. MPI waits there for all ranks of the job, and forever for
those of a node that is lost. No Python code runs then, and no thread of Python. So the last Python code of this process
asks the kernel for SIGALRM, which ends the process if MPI has not done so before. That code runs when the interpreter
clears its modules, after all functions of `atexit`: what a program does there may take as long as it likes.

The signal is asked for only after a failure that says that ranks may be unreachable, and not in forks of the rank.

If a thread of this process is in a call of MPI that does not return, MPI's end would take memory away from that thread.
So the process ends itself by the signal then.
"""

import os
import signal


class _Limit:
    """Exists once. seconds: how long MPI may take to end; 0 for no limit. may_begin: whether it may."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.may_begin = True
        self._pid = os.getpid()
        # The modules may have been cleared when `__del__` runs
        self._getpid, self._kill, self._signal, self._alarm = os.getpid, os.kill, signal.signal, signal.setitimer
        self._which, self._default, self._timer = signal.SIGALRM, signal.SIG_DFL, signal.ITIMER_REAL

    def __del__(self) -> None:
        if (self.may_begin and not self.seconds) or self._getpid() != self._pid:
            return
        self._signal(self._which, self._default)
        if self.may_begin:
            self._alarm(self._timer, self.seconds)
        else:
            self._kill(self._pid, self._which)


_limit = _Limit()


def may_take(seconds: float) -> None:
    """Note that ranks may be unreachable: the end of MPI takes so many seconds at most."""
    _limit.seconds = max(_limit.seconds, seconds)


def may_not_begin() -> None:
    """Note that a thread does not come back from MPI."""
    _limit.may_begin = False
