"""One call in the server: start the ranks, watch them, say how they ended.

What this adds to `shmcoll/startup/watcher.py`:

    a rank answers an exception    it has failed, even while it still runs
    the caller says stop           SIGINT at once, GRACE later SIGTERM, GRACE later SIGKILL
    the caller ends                SIGKILL at once; this process ends, too
"""

import contextlib
import os
import pickle
import select
import signal
import socket
import sys
from collections.abc import Iterator

from shmcoll.engine.memory import arena as arenas
from shmcoll.runner import protocol
from shmcoll.runner.caller_socket import CallerSocket
from shmcoll.runner.protocol import Answered, Over, Request, Setting
from shmcoll.runner.rank import Rank
from shmcoll.runner.spawn import CallJob, start
from shmcoll.startup import exits, rank_process
from shmcoll.startup.defaults import GRACE, WAIT_TIMEOUT
from shmcoll.startup.join import seconds
from shmcoll.startup.watcher import Watcher


def run(caller: CallerSocket, request: Request, descriptors: list[int]) -> Over:
    """Run one call to its end. Raises when it cannot be started; then, too, no process of it is left."""
    call, answers, out, err = descriptors
    with protocol.reopen(call, "rb") as file:
        setting: Setting = pickle.load(file)
    os.environ.clear()
    os.environ.update(setting.environment)
    rank_process.prepare_environment()
    # Threads beside the one that forks would be missing in a rank; numpy's BLAS has some if OMP_NUM_THREADS says so
    fork = request.fork and rank_process.threads() == 1
    arena = arenas.create(request.nprocs, timeout=seconds("SHMCOLL_TIMEOUT", WAIT_TIMEOUT))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        job = CallJob(caller, arena, setting, fork, (call, answers), (out, err), theirs, ours)
        return _CallWatcher(job, request, ours).run()
    finally:
        ours.close()
        theirs.close()
        arena.close()


class _CallWatcher(Watcher[Rank]):
    def __init__(self, job: CallJob, request: Request, events: socket.socket):
        super().__init__(job.arena, [], grace=GRACE, timeout=request.timeout, stops=request.stops)
        self._job = job
        self._number = request.number
        self._events = events
        self._events.setblocking(False)

    def run(self) -> Over:
        try:
            start(self._job, self.ranks)
            self.watch()
            first = exits.first_failure(self.arena, self.ranks)
            failed = {rank.number: rank.end for rank in self.ranks if rank.failed}
            return Over(self._number, None, tuple(self.late), first.number if first else None, failed)
        finally:
            self._clean_up()

    # --- hooks of Watcher ---------------------------------------------------------------------------------------------

    def sources(self) -> Iterator[tuple[int, int]]:
        for fd in (*self._job.caller.descriptors(), self._events.fileno()):
            yield fd, select.POLLIN

    def handle(self, ready: set[int]) -> None:
        if not ready & self._job.caller.descriptors():
            return
        if self._job.caller.receive(ready) is None:
            sys.exit(0)  # by way of _clean_up
        self.end_ranks((0.0, signal.SIGINT), (GRACE, signal.SIGTERM), (2 * GRACE, signal.SIGKILL))

    def read(self, ready: set[int]) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                answered: Answered = pickle.loads(self._events.recv(protocol.LONGEST_MESSAGE))
                self.ranks[answered.rank].answered = answered

    # ------------------------------------------------------------------------------------------------------------------

    def _clean_up(self) -> None:
        """Reap all ranks, and end what failed ones have left behind in their groups."""
        if self.living() or self.is_ending:
            for rank in self.ranks:
                rank.send(signal.SIGKILL)
        for rank in self.ranks:
            os.waitpid(rank.pid, 0)
            if rank.pidfd >= 0:
                os.close(rank.pidfd)
