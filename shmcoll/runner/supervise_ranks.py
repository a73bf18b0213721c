"""Ranks that stay, in the server: start them, pass calls on to them, report how each call ended.

The steps of each call, in this order:

    caller    sends `CallRanks` with the descriptors of the call
    server    passes the descriptors to each rank through the rank's own socket (`control`), and closes them
    rank      calls the function, writes its answer, sends an `Answered` through its socket, and waits for the next call
    server    sends the caller an `Over` when each rank has answered or ended

No process waits forever. The server notices the end of a rank by its pidfd, and then ends the other ranks like those of
a single call (`supervise.py`). `stuck_ranks.py` finds a rank that waits for one that has answered.

The ranks cannot be used any more if one of them has ended, or if the group of all ranks has. Then the server asks each
remaining rank to end, by closing its socket, and the `Over` contains the reason. The caller's interrupt stops a call as
in `supervise.py`. If all ranks answer in time, with any result or error, they stay.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system import refusals
from shmcoll.errors import RankFailed
from shmcoll.runner import protocol, serve_calls, supervise
from shmcoll.runner.caller_socket import CallerSocket
from shmcoll.runner.protocol import Answered, CallRanks, CloseRanks, OpenRanks, Over, Stop
from shmcoll.runner.rank import RankThatStays
from shmcoll.runner.spawn import Job, start
from shmcoll.runner.stuck_ranks import StuckRanks
from shmcoll.startup.defaults import GRACE
from shmcoll.startup.watcher import Watcher


def serve(caller: CallerSocket, request: OpenRanks, descriptors: list[int]) -> None:
    """Start the ranks, and serve the caller until it closes them."""
    with contextlib.ExitStack() as stack:
        try:
            with refusals.in_words():
                watcher = _started(stack, caller, request, descriptors)
        except Exception as e:
            caller.send(Over(request.number, refused=e))
            return
        caller.send(Over(request.number))
        watcher.watch()
        watcher.refuse_calls()


def _started(
    stack: contextlib.ExitStack, caller: CallerSocket, request: OpenRanks, descriptors: list[int]
) -> "_RanksWatcher":
    if not descriptors:
        raise protocol.too_many_files()
    (setting_file,) = descriptors
    setting = supervise.prepare(setting_file)
    fork = request.fork and supervise.can_fork()
    arena = supervise.new_arena(request.nprocs)
    stack.callback(arena.close)
    output = os.open(os.devnull, os.O_WRONLY), os.open(os.devnull, os.O_WRONLY)
    for fd in output:
        stack.callback(os.close, fd)
    pairs = []
    for _ in range(request.nprocs):
        pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        for one in pairs[-1]:
            stack.callback(one.close)
    job = _StayingJob(caller, arena, setting, fork, output, setting_file, pairs)
    watcher = _RanksWatcher(job)
    stack.callback(watcher.clean_up)
    start(job, watcher.ranks)
    for _, theirs in pairs:
        theirs.close()
    return watcher


@dataclass(frozen=True)
class _StayingJob(Job[RankThatStays]):
    """Ranks that stay. pairs: the two ends of each rank's socket, the server's end first."""

    setting_file: int
    pairs: list[tuple[socket.socket, socket.socket]]

    def rank(self, number: int, pid: int, begin: int) -> RankThatStays:
        return RankThatStays(number, pid, -1, begin, self.pairs[number][0])

    def leave(self, number: int) -> None:
        for one, (ours, theirs) in enumerate(self.pairs):
            ours.close()
            if one != number:
                theirs.close()

    def perform(self, number: int) -> NoReturn:
        serve_calls.serve(self.pairs[number][1], self.setting_file, number)

    def descriptors(self, number: int) -> list[int]:
        return [self.pairs[number][1].fileno(), self.setting_file]

    def command(self, number: int) -> list[str]:
        control, setting = self.descriptors(number)
        return serve_calls.command(control, setting, number)


class _RanksWatcher(Watcher[RankThatStays]):
    def __init__(self, job: _StayingJob):
        super().__init__(job.arena, [], grace=GRACE, timeout=None, stops=True)
        self._caller = job.caller
        self._call: int | None = None  # the number of the present call
        self._where = ""
        self._reason = ""  # why no further call is possible
        self._closing: int | None = None  # the number of the request to close
        self._stuck = StuckRanks(job.arena, self.ranks)
        self._silent: set[int] = set()  # ranks that have closed their ends of the sockets

    # --- hooks of Watcher ---------------------------------------------------------------------------------------------

    def sources(self) -> Iterator[tuple[int, int]]:
        for fd in self._caller.descriptors():
            yield fd, select.POLLIN
        for rank in self.living():
            if not rank.is_leaving and rank.number not in self._silent:
                yield rank.control.fileno(), select.POLLIN

    def wakes(self) -> Iterable[float]:
        return [self._stuck.next_look] if self._is_half_answered() else []

    def has_work(self) -> bool:
        return self._call is not None

    def handle(self, ready: set[int]) -> None:
        if not ready & self._caller.descriptors():
            return
        message = self._caller.receive(ready)
        if message is None:
            sys.exit(0)  # `clean_up` runs
        request, descriptors = message
        if isinstance(request, CallRanks) and self._reason:
            for fd in descriptors:
                os.close(fd)
            self._refuse(request, RankFailed(protocol.refusal(self._reason)))
        elif isinstance(request, CallRanks) and not descriptors:
            self._refuse(request, protocol.too_many_files())
        elif isinstance(request, CallRanks):
            self._begin(request, descriptors)
        elif isinstance(request, Stop) and request.number == self._call:
            self._where = self._look_where()
            self.end_ranks((0.0, signal.SIGINT), (GRACE, signal.SIGTERM), (2 * GRACE, signal.SIGKILL))
        elif isinstance(request, Stop):  # the call is over
            self._caller.send(Over(request.number, closed=self._reason))
        elif isinstance(request, CloseRanks):
            self._closing = request.number
            self._dismiss()

    def read(self, ready: set[int]) -> None:
        for rank in self.ranks:
            if not rank.is_leaving and (rank.control.fileno() in ready or rank.status is not None):
                with contextlib.suppress(BlockingIOError):
                    self._read(rank)

    def time_is_over(self) -> None:
        if self.late:
            self.late = [rank.number for rank in self.ranks if rank.is_busy]
            self._where = self._look_where()

    def _keep_time(self) -> None:
        super()._keep_time()
        self._settle()

    def _read(self, rank: RankThatStays) -> None:
        try:
            data = rank.control.recv(protocol.LONGEST_MESSAGE, socket.MSG_DONTWAIT)
        except ConnectionError:
            data = b""
        if data:
            rank.answered = protocol.parse(data, Answered) or rank.answered
        else:  # it is ending, or its program has closed the socket
            self._silent.add(rank.number)

    # --- one call -----------------------------------------------------------------------------------------------------

    def _begin(self, request: CallRanks, descriptors: list[int]) -> None:
        self._call, self._where = request.number, ""
        self._stuck.begin()
        for rank in self.ranks:
            rank.answered = None
            with contextlib.suppress(OSError):  # it has ended, or is leaving
                socket.send_fds(rank.control, [serve_calls.CALL], descriptors, socket.MSG_NOSIGNAL)
        for fd in descriptors:
            os.close(fd)
        self._deadline = request.timeout and time.monotonic() + request.timeout

    def _refuse(self, request: CallRanks, error: Exception) -> None:
        self._caller.send(Over(request.number, error, closed=self._reason))

    def _settle(self) -> None:
        """Answer the caller if every rank has answered or ended; otherwise check whether a rank never will."""
        if not self._reason and any(rank.status is not None and not rank.is_leaving for rank in self.ranks):
            self._reason = self._why_ended()
            if self._call is None:
                self._dismiss()
        if self._call is None:
            return
        if any(rank.is_busy for rank in self.ranks):
            if self._is_half_answered():
                self._stuck.look()
            return
        has_failed = any(rank.is_recorded for rank in self.ranks) or Group.world(self.arena).has_ended()
        if not self._reason and (self.late or has_failed):
            self._reason = self._why_ended()
        failed = {rank.number: end for rank in self.ranks if (end := rank.end)}
        first = min((rank for rank in self.ranks if rank.number in failed), key=_order, default=None)
        number = first.number if first else None
        loaded = all(rank.answered and rank.answered.loaded for rank in self.ranks)
        self._caller.send(Over(self._call, None, tuple(self.late), number, failed, self._where, self._reason, loaded))
        self._call, self._deadline = None, None
        if self._reason:
            self._dismiss()
        else:
            self._steps, self.is_ending = [], False  # left from an interrupt that all ranks have obeyed
            for rank in self.ranks:
                rank.ended_by = 0

    def _is_half_answered(self) -> bool:
        return self._call is not None and not self.is_ending and any(rank.answered for rank in self.ranks)

    def _why_ended(self) -> str:
        """Return a text that says why no further call is possible."""
        if self.late:
            return "the time limit of a call was over"
        record = records.first_failure(Group.world(self.arena))
        return record.text if record else "a rank has ended"

    def _dismiss(self) -> None:
        """Ask the ranks to end, and end those that do not."""
        for rank in self.ranks:
            if not rank.is_leaving:
                rank.is_leaving = True
                rank.control.close()
        self.end_ranks((GRACE, signal.SIGTERM), (2 * GRACE, signal.SIGKILL))

    # ------------------------------------------------------------------------------------------------------------------

    def _look_where(self) -> str:
        return supervise.where(self.arena, self.living())

    def refuse_calls(self) -> None:
        """Refuse calls when all ranks have ended, until the caller closes them, or ends."""
        while self._closing is None:
            poll = select.poll()
            for fd in self._caller.descriptors():
                poll.register(fd, select.POLLIN)
            self.handle({fd for fd, _ in poll.poll()})
        self._caller.send(Over(self._closing))

    def clean_up(self) -> None:
        supervise.clean_up(self.ranks, by_force=bool(self.living() or self._reason))


def _order(rank: RankThatStays) -> tuple[bool, bool, float]:
    """Return the sort key of a rank that failed: a rank that failed because of another comes last, a killed rank comes
    first."""
    if rank.answered and (raised := rank.answered.raised):
        return raised.is_consequence, True, raised.time
    return bool(rank.ended_by), (rank.status or 0) >= 0, rank.ended
