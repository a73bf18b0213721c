"""The ranks in the server: start them, give them their calls, watch them, report how each call ended.

`protocol.py` describes the messages. What this adds to `shmcoll/startup/watcher.py`:

    a rank answers an exception    a rank of one call has failed by it, even if it still runs; one that stays has not
    the caller sends `Stop`        the ranks are ended, by SIGINT first
    the caller ends                the ranks are killed; this process ends, too

The end of a rank that has one call is the end of that call, and its output counts until then. Ranks that stay cannot be
used any more if one of them has ended, or if the group of all ranks has. Then the server asks each remaining rank to
end, by closing its socket, and the `Over` contains the reason. If all ranks answer in time, with any result or error,
they stay.
"""

import contextlib
import errno
import os
import pickle
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group, names
from shmcoll.engine.system import refusals
from shmcoll.errors import RankFailed
from shmcoll.profiling import asked
from shmcoll.runner import passing, protocol, serve_calls
from shmcoll.runner.caller_socket import CallerSocket
from shmcoll.runner.protocol import Answered, Call, Close, Ended, Open, Over, Setting, Stop
from shmcoll.runner.rank import Rank
from shmcoll.runner.spawn import Job, start
from shmcoll.runner.stuck_ranks import StuckRanks
from shmcoll.startup import exits, rank_process
from shmcoll.startup.defaults import GRACE, WAIT_TIMEOUT
from shmcoll.startup.join import seconds
from shmcoll.startup.watcher import Watcher

_STACKS_PATIENCE = 0.5  # seconds: how long ranks have to give their stacks
_LONGEST_WHERE = 100_000  # characters; it has to fit into a message


def serve(caller: CallerSocket, request: Open, descriptors: list[int]) -> None:
    """Start the ranks, and serve the caller until they have ended: after their call, or when it closes them. No process
    of theirs is left then."""
    watcher: _RanksWatcher | None = None
    try:
        with refusals.in_words(), contextlib.ExitStack() as stack:
            for fd in descriptors:
                stack.callback(os.close, fd)
            watcher = _RanksWatcher(_prepared(stack, caller, request, descriptors), request)
            stack.callback(watcher.end)
            start(watcher.job, watcher.ranks)
            last = watcher.run()
            if any(wanted := asked.read(watcher.job.setting.folder or "")):
                from shmcoll.profiling import output

                last = replace(last, said=tuple(output.publish(watcher.arena, *wanted)))
    except Exception as e:
        if watcher and watcher.has_begun and watcher.stays:
            raise  # the caller waits for another answer than that to `Open`
        last = Over(request.number, refused=e)
    caller.send(last)


def _prepared(stack: contextlib.ExitStack, caller: CallerSocket, request: Open, descriptors: list[int]) -> Job:
    """Return what the ranks share. Takes over the caller's environment, which they inherit."""
    if not descriptors:
        raise protocol.too_many_files()
    with protocol.reopen(descriptors[0], "rb") as file:
        setting: Setting = pickle.load(file)
    os.environ.clear()
    os.environ.update(setting.environment)
    rank_process.fix_folder(setting.folder or "")
    rank_process.prepare_environment()
    arena = arenas.create(request.nprocs, timeout=seconds("SHMCOLL_TIMEOUT", WAIT_TIMEOUT))
    stack.callback(arena.close)
    events = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for one in events:
        stack.enter_context(one)
    events[0].setblocking(False)
    # Other threads than the one that forks would be missing in a rank; numpy's BLAS has some if OMP_NUM_THREADS asks.
    fork = request.fork and rank_process.threads() == 1
    output = descriptors[2 : protocol.DESCRIPTORS]
    files = [fd for fd in descriptors if fd not in output]
    return Job(caller, arena, setting, fork, request.call is None, events, files, output)


class _RanksWatcher(Watcher[Rank]):
    def __init__(self, job: Job, request: Open):
        super().__init__(job.arena, [], grace=GRACE, timeout=None, stops=request.stops)
        self.job = job
        self.stays = job.stays
        self.has_begun = False  # whether the caller knows that the ranks have been started
        self._caller = job.caller
        self._opening = request
        self._call: int | None = None  # the number of the present call
        self._where = ""
        self._reason = ""  # why no further call is possible
        self._told: set[int] = set()  # the ranks whose failure the caller has been sent
        self._last: Over | None = None  # the answer to the last request, to be sent when no rank is left
        self._stuck = StuckRanks(job.arena, self.ranks)

    def run(self) -> Over:
        """Watch the ranks to their end. Returns the answer to the last request."""
        if self._opening.call:
            self._begin(self._opening.call, [])
        else:
            self._caller.send(Over(self._opening.number))
        self.has_begun = True
        self.watch()
        assert self._last
        return self._last

    def end(self) -> None:
        """Reap all ranks, and end the processes that failed ones have left in their groups."""
        by_force = self.living() or (self._reason if self.stays else self.is_ending)
        self.clean_up(signal.SIGKILL if by_force else None)

    # --- hooks of Watcher ---------------------------------------------------------------------------------------------

    def sources(self) -> Iterator[tuple[int, int]]:
        for fd in (*self._caller.descriptors(), self.job.events[0].fileno()):
            yield fd, select.POLLIN

    def wakes(self) -> Iterable[float]:
        return [self._stuck.next_look] if self._is_half_answered() else []

    def has_work(self) -> bool:
        return self._last is None

    def handle(self, ready: set[int]) -> None:
        if not ready & self._caller.descriptors():
            return
        message = self._caller.receive(ready)
        if message is None:
            sys.exit(0)  # `end` runs
        request, descriptors = message
        if isinstance(request, Call) and descriptors and not self._reason:
            self._begin(request, descriptors)
        elif isinstance(request, Call):
            error = RankFailed(protocol.refusal(self._reason)) if self._reason else protocol.too_many_files()
            self._caller.send(Over(request.number, error, closed=self._reason))
        elif isinstance(request, Stop) and request.number == self._call:
            self._where = self._look_where("interrupt", "the call was interrupted while ranks wait")
            self.end_ranks(signal.SIGINT)
        elif isinstance(request, Stop):  # the call is over
            self._caller.send(Over(request.number, closed=self._reason))
        elif isinstance(request, Close):
            self._last = Over(request.number)
            self._dismiss()
        for fd in descriptors:
            os.close(fd)

    def read(self, ready: set[int]) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                answered = protocol.parse(self.job.events[0].recv(protocol.LONGEST_MESSAGE), Answered)
                if answered and answered.rank in range(len(self.ranks)):
                    rank = self.ranks[answered.rank]
                    rank.answered = answered
                    if not self.stays:
                        rank.is_leaving, rank.raised = True, answered.raised

    def time_is_over(self) -> None:
        if self.late:
            self.late = [rank.number for rank in self.ranks if rank.is_busy]
            self._where = self._look_where("time limit", f"the time limit is over; still running: {names(self.late)}")

    def _keep_time(self) -> None:
        super()._keep_time()
        self._settle()

    # --- one call -----------------------------------------------------------------------------------------------------

    def _begin(self, call: Call, descriptors: list[int]) -> None:
        """Begin a call. descriptors: those that ranks which stay have not inherited."""
        self._call, self._where = call.number, ""
        self._stuck.begin()
        for rank in self.ranks:
            rank.answered = None
            if rank.control:
                _pass_on(rank, rank.control, descriptors)
        self._deadline = call.timeout and time.monotonic() + call.timeout

    def _settle(self) -> None:
        """Report the call if every rank has done its part or ended; otherwise check whether a rank never will."""
        if not self._reason and not self._last and any(rank.failed for rank in self.ranks):
            self._reason = self._why_ended()
            if self._call is None:
                self._dismiss()
        if self._call is None:
            return
        if any(rank.is_busy for rank in self.ranks):
            self._tell_ends(self._call)
            if self._is_half_answered():
                self._stuck.look()
            return
        if not self._reason and (self.late or Group.world(self.arena).has_ended()):
            self._reason = self._why_ended()
        failed = {rank.number: end for rank in self.ranks if (end := rank.end)}
        answers = {rank.number: rank.answered for rank in self.ranks if rank.answered}
        others = {n: one.raised for n, one in answers.items() if one.raised and not self.ranks[n].is_recorded}
        first = exits.first_failure(self.arena, failed, others)
        loaded = len(answers) == len(self.ranks) and all(one.loaded for one in answers.values())
        over = Over(self._call, None, tuple(self.late), first, failed, self._where, self._reason, loaded)
        self._call, self._deadline = None, None
        if not self.stays:
            self._last = over
            return
        self._caller.send(over)
        if self._reason:
            self._dismiss()
        else:
            self._steps, self.is_ending = [], False  # left from an interrupt that all ranks have obeyed
            for rank in self.ranks:
                rank.ended_by = 0

    def _tell_ends(self, call: int) -> None:
        """Send the caller the failures of ranks while others go on."""
        for rank in self.ranks:
            if rank.failed and rank.status is not None and rank.number not in self._told and (end := rank.end):
                self._told.add(rank.number)
                self._caller.send(Ended(call, rank.number, end))

    def _is_half_answered(self) -> bool:
        """Return whether a rank may wait for one that stays and takes part in no more of this call."""
        is_watched = self.stays and self._call is not None and not self.is_ending
        return is_watched and any(rank.answered for rank in self.ranks)

    def _why_ended(self) -> str:
        """Return a text that says why no further call is possible."""
        if self.late:
            return "the time limit of a call was over"
        record = records.first_failure(Group.world(self.arena))
        return record.text if record else "a rank has ended"

    def _dismiss(self) -> None:
        """Ask the ranks that stay to end, and end those that do not."""
        for rank in self.ranks:
            if rank.control:
                rank.is_leaving = True
                rank.control.close()
        self.end_ranks(after=GRACE)

    def _look_where(self, cause: str, text: str) -> str:
        """Return where the ranks are, cut to the length of a message. cause, text: as in `Watcher.where`."""
        try:
            return self.where(_STACKS_PATIENCE, cause, text)[:_LONGEST_WHERE]
        except Exception as e:  # an error here must not keep the ranks from being ended
            return f"(not known: {type(e).__name__}: {e})"


def _pass_on(rank: Rank, control: socket.socket, descriptors: list[int]) -> None:
    """Send a rank that stays the descriptors of its call.

    The kernel refuses while too many descriptors of this user are on their way (ETOOMANYREFS). The ranks wait for
    theirs, so this passes at once; a rank that has been stopped may prevent it, and then the rank is ended.
    """
    latest = time.monotonic() + GRACE
    while True:
        try:
            passing.send(control, [serve_calls.CALL], descriptors)
            return
        except OSError as e:
            if e.errno != errno.ETOOMANYREFS:
                return  # it has ended, or is leaving
        if time.monotonic() > latest:
            rank.send(signal.SIGKILL)
            return
        time.sleep(0.001)
