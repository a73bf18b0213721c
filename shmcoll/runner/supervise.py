"""One call in the server: start the ranks, watch them, report how they ended.

What this adds to `shmcoll/startup/watcher.py`:

    a rank answers an exception    it has failed, even if it still runs
    the caller sends `Stop`        SIGINT at once, GRACE later SIGTERM, GRACE later SIGKILL
    the caller ends                SIGKILL at once; this process ends, too
"""

import contextlib
import os
import pickle
import select
import signal
import socket
import sys
from collections.abc import Iterable, Iterator

from shmcoll.diagnostics import hang_report
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory.arena import Arena
from shmcoll.runner import protocol
from shmcoll.runner.caller_socket import CallerSocket
from shmcoll.runner.protocol import Answered, Over, Request, Setting, Stop
from shmcoll.runner.rank import Rank
from shmcoll.runner.spawn import CallJob, start
from shmcoll.startup import exits, rank_process
from shmcoll.startup.defaults import GRACE, WAIT_TIMEOUT
from shmcoll.startup.exits import RankProcess
from shmcoll.startup.join import seconds
from shmcoll.startup.watcher import Watcher

_STACKS_PATIENCE = 0.5  # seconds: how long ranks have to give their stacks
_LONGEST_WHERE = 100_000  # characters; it has to fit into a message


def run(caller: CallerSocket, request: Request, descriptors: list[int]) -> Over:
    """Run one call to its end. Raises an error if it cannot be started; no process of it is left then, either."""
    if not descriptors:
        raise protocol.too_many_files()
    call, answers, out, err, *shared = descriptors
    setting = prepare(call)
    arena = new_arena(request.nprocs)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        fork = request.fork and can_fork()
        job = CallJob(caller, arena, setting, fork, (out, err), (call, answers), theirs, ours, shared)
        return _CallWatcher(job, request, ours).run()
    finally:
        ours.close()
        theirs.close()
        arena.close()


def prepare(file_with_setting: int) -> Setting:
    """Take over the caller's environment, which the ranks inherit."""
    with protocol.reopen(file_with_setting, "rb") as file:
        setting: Setting = pickle.load(file)
    os.environ.clear()
    os.environ.update(setting.environment)
    rank_process.prepare_environment()
    return setting


def new_arena(nprocs: int) -> Arena:
    return arenas.create(nprocs, timeout=seconds("SHMCOLL_TIMEOUT", WAIT_TIMEOUT))


def can_fork() -> bool:
    """Return whether this process has only the thread that forks. Other threads would be missing in a rank. numpy's
    BLAS has some if OMP_NUM_THREADS asks for them."""
    return rank_process.threads() == 1


def where(arena: Arena, ranks: Iterable[RankProcess]) -> str:
    """Return where the ranks are, with their stacks, as `shmrun --timeout` prints it, cut to the length of a
    message."""
    try:
        pids = {rank.number: rank.pid for rank in ranks}
        return hang_report.inquest(arena, stacks=True, limit=_STACKS_PATIENCE, pids=pids)[:_LONGEST_WHERE]
    except Exception as e:  # an error here must not keep the ranks from being ended
        return f"(not known: {type(e).__name__}: {e})"


class _CallWatcher(Watcher[Rank]):
    def __init__(self, job: CallJob, request: Request, events: socket.socket):
        super().__init__(job.arena, [], grace=GRACE, timeout=request.timeout, stops=request.stops)
        self._job = job
        self._number = request.number
        self._events = events
        self._events.setblocking(False)
        self._where = ""

    def run(self) -> Over:
        try:
            start(self._job, self.ranks)
            self.watch()
            first = exits.first_failure(self.arena, self.ranks)
            failed = {rank.number: rank.end for rank in self.ranks if rank.failed}
            return Over(self._number, None, tuple(self.late), first.number if first else None, failed, self._where)
        finally:
            self._clean_up()

    # --- hooks of Watcher ---------------------------------------------------------------------------------------------

    def sources(self) -> Iterator[tuple[int, int]]:
        for fd in (*self._job.caller.descriptors(), self._events.fileno()):
            yield fd, select.POLLIN

    def handle(self, ready: set[int]) -> None:
        if not ready & self._job.caller.descriptors():
            return
        message = self._job.caller.receive(ready)
        if message is None:
            sys.exit(0)  # `_clean_up` runs
        if not isinstance(message[0], Stop) or message[0].number != self._number:
            return
        self._where = where(self.arena, self.living())
        self.end_ranks((0.0, signal.SIGINT), (GRACE, signal.SIGTERM), (2 * GRACE, signal.SIGKILL))

    def read(self, ready: set[int]) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                answered = protocol.parse(self._events.recv(protocol.LONGEST_MESSAGE), Answered)
                if answered and answered.rank in range(len(self.ranks)):
                    self.ranks[answered.rank].answered = answered

    def time_is_over(self) -> None:
        if self.late:
            self._where = where(self.arena, self.living())

    # ------------------------------------------------------------------------------------------------------------------

    def _clean_up(self) -> None:
        clean_up(self.ranks, by_force=bool(self.living()) or self.is_ending)


def clean_up(ranks: Iterable[RankProcess], *, by_force: bool) -> None:
    """Reap all ranks, and end the processes that failed ones have left in their groups."""
    if by_force:
        for rank in ranks:
            rank.send(signal.SIGKILL)
    for rank in ranks:
        os.waitpid(rank.pid, 0)
        if rank.pidfd >= 0:
            os.close(rank.pidfd)
