"""One process per rank: a fork of the server that serves calls, or executes an interpreter that does."""

import os
import socket
import time
from dataclasses import dataclass
from typing import NoReturn

from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.system import interpreter
from shmcoll.engine.system.refusals import refused
from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import ShmcollError
from shmcoll.runner import serve_calls
from shmcoll.runner.caller_socket import CallerSocket
from shmcoll.runner.protocol import Setting
from shmcoll.runner.rank import Rank
from shmcoll.startup import rank_process


@dataclass(frozen=True)
class Job:
    """What all ranks share. events: the two ends of the socket for their answers, the server's first.

    files: the descriptors of their only call; of ranks that stay, a file with a `Setting`. output: their stdout and
    stderr; empty for ranks that stay, which get those of each call.
    """

    caller: CallerSocket
    arena: Arena
    setting: Setting
    fork: bool
    stays: bool
    events: tuple[socket.socket, socket.socket]
    files: list[int]
    output: list[int]


def start(job: Job, started: list[Rank]) -> None:
    """Start the ranks, appending each to `started`.

    Raises `ShmcollError` if the system cannot start this number of processes. Those in `started` run then.
    """
    server = os.getpid()
    for number in range(job.arena.ranks):
        begin = time.monotonic_ns()
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) if job.stays else (None, None)
            pid = os.fork()
            if pid == 0:
                for one in started:
                    one.close()
                if ours:
                    ours.close()
                _become(job, number, server, theirs)
            if theirs:
                theirs.close()
            started.append(Rank(number, pid, -1, begin, ours))
            started[-1].pidfd = os.pidfd_open(pid)
        except OSError as e:
            raise ShmcollError(rank_process.cannot_start(number, job.arena.ranks, e)) from e


def _become(job: Job, number: int, server: int, control: socket.socket | None) -> NoReturn:
    """Turn into the rank, in the child."""
    try:
        output = job.output or [os.open(os.devnull, os.O_WRONLY) for _ in range(2)]
        for standard, fd in enumerate((os.open(os.devnull, os.O_RDONLY), *output)):
            rank_process.replace(fd, standard)
        rank_process.begin(server, job.arena, number, "shmcoll.run")
        job.caller.close()
        job.events[0].close()
        if not job.fork:
            _execute(job, number, control)
        rank_process.begin_in_fork(job.arena)
        serve_calls.serve(number, job.events[1], control, job.files)
    except BaseException as e:
        os.write(2, to_bytes(f"rank {number} could not be set up: {refused(e) or f'{type(e).__name__}: {e}'}\n"))
    finally:
        os._exit(126)


def _execute(job: Job, number: int, control: socket.socket | None) -> None:
    sockets = [one.fileno() for one in (job.events[1], control) if one]
    for fd in (job.arena.fd, *sockets, *job.files):
        os.set_inheritable(fd, True)
    rank_process.begin_to_execute()
    line = serve_calls.command(number, job.events[1], control, job.files)
    os.execve(line[0], line, interpreter.environment(os.environ, job.setting.path))
