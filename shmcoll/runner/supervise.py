"""One call in the server: start the ranks, watch them, say how they fared.

What can happen, and what then happens. No wait here is without an end:

    a rank ends with its result    its record says departed, and all doorbells ring: only who needs it will mind
    a rank answers an exception,   its record says so, the world is aborted (collectives raise `RankFailed`), and all
    or ends without a result       have GRACE seconds to end, unless the caller wants them to go on; then they get
                                   SIGTERM, GRACE later SIGKILL
    the time limit is over         SIGTERM at once, GRACE later SIGKILL
    the caller says stop           SIGINT at once, then as after a failure
    the caller ends                SIGKILL at once; this process ends, too
    this process ends              the kernel kills the ranks (`ranks.die_with`)

Signals go to process groups, so that they reach what a rank has started. A group bears its leader's pid; that no other
process may get this pid, ranks that have ended are reaped at the very end only.
"""

import contextlib
import os
import pickle
import select
import signal
import socket
import sys
import time

from shmcoll.engine.memory import arena as arenas
from shmcoll.runner import protocol, rank_exits
from shmcoll.runner.caller_socket import CallerSocket
from shmcoll.runner.protocol import Answered, Over, Request, Setting
from shmcoll.runner.rank_exits import Rank
from shmcoll.runner.spawn import CallJob, start
from shmcoll.startup import rank_process
from shmcoll.startup.join import DEFAULT_TIMEOUT, seconds

GRACE = 1.0  # seconds


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
    arena = arenas.create(request.nprocs, timeout=seconds("SHMCOLL_TIMEOUT", DEFAULT_TIMEOUT))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        return _Watcher(
            CallJob(caller, arena, setting, fork, (call, answers), (out, err), theirs, ours), request, ours
        ).run()
    finally:
        ours.close()
        theirs.close()
        arena.close()


class _Watcher:
    def __init__(self, job: CallJob, request: Request, events: socket.socket):
        self._job = job
        self._request = request
        self._events = events
        self._events.setblocking(False)
        self._ranks: list[Rank] = []
        self._late: tuple[int, ...] = ()
        self._deadline: float | None = None
        self._steps: list[tuple[float, signal.Signals]] = []  # when to send what to ranks that should end
        self._ending = False  # whether such steps have begun, for whatever reason

    def run(self) -> Over:
        try:
            start(self._job, self._ranks)
            if self._request.timeout is not None:
                self._deadline = time.monotonic() + self._request.timeout
            while self._living():
                ready = self._poll()
                self._listen(ready)
                self._note_answers()
                self._note_ends(ready)
                self._keep_time()
            first = rank_exits.first_failure(self._job.arena, self._ranks)
            return Over(self._request.number, None, self._late, first, rank_exits.ends(self._ranks))
        finally:
            self._clean_up()

    def _living(self) -> list[Rank]:
        return [rank for rank in self._ranks if rank.status is None]

    def _poll(self) -> set[int]:
        """The descriptors that are ready. Built anew each time: what to wait for follows from the state alone."""
        poll = select.poll()
        for fd in (*self._job.caller.descriptors(), self._events.fileno(), *(r.pidfd for r in self._living())):
            poll.register(fd, select.POLLIN)
        limits = [when for when, _ in self._steps[:1]]
        if self._deadline:
            limits.append(self._deadline)
        wait = max(0.0, min(limits) - time.monotonic()) * 1000 if limits else None
        return {fd for fd, _ in poll.poll(wait)}

    # --- what can happen ----------------------------------------------------------------------------------------------

    def _listen(self, ready: set[int]) -> None:
        if not ready & self._job.caller.descriptors():
            return
        if self._job.caller.receive(ready) is None:
            sys.exit(0)  # by way of _clean_up
        self._end((0.0, signal.SIGINT), (GRACE, signal.SIGTERM), (2 * GRACE, signal.SIGKILL))

    def _note_answers(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                answered: Answered = pickle.loads(self._events.recv(protocol.LONGEST_MESSAGE))
                self._ranks[answered.rank].answered = answered
                if answered.line:
                    self._note_failure(self._ranks[answered.rank])

    def _note_ends(self, ready: set[int]) -> None:
        ended = [rank for rank in self._living() if rank.pidfd in ready]
        for rank in ended:
            rank.note_end()
        self._note_answers()  # the last of those
        # Of ranks found dead together, those killed by a signal come first: others may have ended because of them
        for rank in sorted(ended, key=lambda rank: (rank.status or 0) >= 0):
            if rank.failed:
                self._note_failure(rank)
            else:
                rank.tell_departure(self._job.arena)

    def _note_failure(self, rank: Rank) -> None:
        rank.tell_failure(self._job.arena)
        if self._request.stops and not self._ending:
            self._end((GRACE, signal.SIGTERM), (2 * GRACE, signal.SIGKILL))

    def _end(self, *steps: tuple[float, signal.Signals]) -> None:
        now = time.monotonic()
        self._ending, self._steps = True, [(now + delay, signum) for delay, signum in steps]

    def _keep_time(self) -> None:
        now = time.monotonic()
        if self._deadline and now >= self._deadline:
            self._deadline = None
            if not self._ending:
                self._late = tuple(rank.number for rank in self._living())
                self._end((0.0, signal.SIGTERM), (GRACE, signal.SIGKILL))
        while self._steps and self._steps[0][0] <= now:
            _, signum = self._steps.pop(0)
            for rank in self._ranks:
                rank.send(signum)
            for rank in self._living():
                rank.ended_by_us = True

    def _clean_up(self) -> None:
        """Reap all ranks, and end what failed ones have left behind in their groups."""
        if self._living() or self._ending:
            for rank in self._ranks:
                rank.send(signal.SIGKILL)
        for rank in self._ranks:
            os.waitpid(rank.pid, 0)
            if rank.pidfd >= 0:
                os.close(rank.pidfd)
