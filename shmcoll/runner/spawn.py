"""One process per rank: a fork of the server that performs the job, or executes an interpreter that does."""

import os
import socket
import time
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.system import interpreter
from shmcoll.engine.system.refusals import refused
from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import ShmcollError
from shmcoll.runner import run_call
from shmcoll.runner.caller_socket import CallerSocket
from shmcoll.runner.protocol import Setting
from shmcoll.runner.rank import Rank, RankThatStays
from shmcoll.startup import rank_process

AnyOfOurs = TypeVar("AnyOfOurs", Rank, RankThatStays)


@dataclass(frozen=True)
class Job(Generic[AnyOfOurs]):
    """The state that all ranks of a call, or all ranks that stay, share. output: their stdout and stderr."""

    caller: CallerSocket
    arena: Arena
    setting: Setting
    fork: bool
    output: tuple[int, int]

    def rank(self, number: int, pid: int, begin: int) -> AnyOfOurs:
        """Return the server's object for a rank."""
        raise NotImplementedError

    def leave(self, number: int) -> None:
        """Close, in the rank, what only the server uses."""
        raise NotImplementedError

    def perform(self, number: int) -> NoReturn:
        """Do the work of a rank that is a fork of the server."""
        raise NotImplementedError

    def descriptors(self, number: int) -> list[int]:
        """Return the descriptors that a rank with an interpreter of its own inherits."""
        raise NotImplementedError

    def command(self, number: int) -> list[str]:
        """Return the command line of such a rank."""
        raise NotImplementedError


@dataclass(frozen=True)
class CallJob(Job[Rank]):
    """One call. files: the call and the answers. events: the socket on which ranks report that they have answered, and
    the server's end of it. shared: the memory of shared arrays."""

    files: tuple[int, int]
    events: socket.socket
    server_only: socket.socket
    shared: list[int] = field(default_factory=list)

    def rank(self, number: int, pid: int, begin: int) -> Rank:
        return Rank(number, pid, -1, begin)

    def leave(self, number: int) -> None:
        self.server_only.close()

    def perform(self, number: int) -> NoReturn:
        run_call.perform(*self.files, self.events, number, self.shared)

    def descriptors(self, number: int) -> list[int]:
        return [*self.files, self.events.fileno(), *self.shared]

    def command(self, number: int) -> list[str]:
        return run_call.command(*self.files, self.events.fileno(), number, self.shared)


def start(job: Job[AnyOfOurs], started: list[AnyOfOurs]) -> None:
    """Start the ranks, appending each to `started`.

    Raises `ShmcollError` if the system cannot start this number of processes. Those in `started` run then.
    """
    server = os.getpid()
    for number in range(job.arena.ranks):
        begin = time.monotonic_ns()
        try:
            pid = os.fork()
            if pid == 0:
                _become(job, number, server, started)
            started.append(job.rank(number, pid, begin))
            started[-1].pidfd = os.pidfd_open(pid)
        except OSError as e:
            raise ShmcollError(rank_process.cannot_start(number, job.arena.ranks, e)) from e


def _become(job: Job[AnyOfOurs], number: int, server: int, started: list[AnyOfOurs]) -> NoReturn:
    """Turn into the rank, in the child."""
    try:
        for standard, fd in enumerate((os.open(os.devnull, os.O_RDONLY), *job.output)):
            rank_process.replace(fd, standard)
        rank_process.begin(server, job.arena, number, "shmcoll.run")
        job.caller.close()
        job.leave(number)
        for rank in started:
            os.close(rank.pidfd)
        if not job.fork:
            _execute(job, number)
        rank_process.begin_in_fork(job.arena)
        job.perform(number)
    except BaseException as e:
        os.write(2, to_bytes(f"rank {number} could not be set up: {refused(e) or f'{type(e).__name__}: {e}'}\n"))
    finally:
        os._exit(126)


def _execute(job: Job[AnyOfOurs], number: int) -> None:
    for fd in (job.arena.fd, *job.descriptors(number)):
        os.set_inheritable(fd, True)
    rank_process.begin_to_execute()
    line = job.command(number)
    os.execve(line[0], line, interpreter.environment(os.environ, job.setting.path))
