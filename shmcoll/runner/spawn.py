"""One process a rank: a fork of the server that performs the call, or executes an interpreter that does."""

import os
import socket
import time
from dataclasses import dataclass
from typing import NoReturn

from shmcoll.engine.memory.arena import Arena
from shmcoll.errors import ShmcollError
from shmcoll.runner import run_call
from shmcoll.runner.caller_socket import CallerSocket
from shmcoll.runner.protocol import Setting
from shmcoll.runner.rank import Rank
from shmcoll.startup import rank_process


@dataclass(frozen=True)
class CallJob:
    """What all ranks of a call share. `files`: call and answers; `output`: what they have as stdout and stderr.

    `events`: where they say that they have answered; `server_only`: what they close.
    """

    caller: CallerSocket
    arena: Arena
    setting: Setting
    fork: bool
    files: tuple[int, int]
    output: tuple[int, int]
    events: socket.socket
    server_only: socket.socket


def start(job: CallJob, started: list[Rank]) -> None:
    """Start the ranks, appending each to `started`.

    Raises `ShmcollError` when the system has no room for so many processes; those in `started` run then.
    """
    server = os.getpid()
    for number in range(job.arena.ranks):
        begin = time.monotonic_ns()
        try:
            pid = os.fork()
            if pid == 0:
                _become(job, number, server, started)
            started.append(Rank(number, pid, -1, begin))
            started[-1].pidfd = os.pidfd_open(pid)
        except OSError as e:
            raise ShmcollError(rank_process.cannot_start(number, job.arena.ranks, e)) from e


def _become(job: CallJob, number: int, server: int, started: list[Rank]) -> NoReturn:
    """In the child: turn into the rank."""
    try:
        rank_process.begin(server, job.arena, number, "shmcoll.run")
        job.caller.close()
        job.server_only.close()
        for rank in started:
            os.close(rank.pidfd)
        for standard, fd in enumerate((os.open(os.devnull, os.O_RDONLY), *job.output)):
            rank_process.replace(fd, standard)
        if not job.fork:
            _execute(job, number)
        rank_process.begin_in_fork(job.arena)
        run_call.perform(*job.files, job.events, number)
    except BaseException as e:
        os.write(2, f"rank {number} could not be set up: {type(e).__name__}: {e}\n".encode())
    finally:
        os._exit(126)


def _execute(job: CallJob, number: int) -> None:
    events = job.events.fileno()
    for fd in (job.arena.fd, *job.files, events):
        os.set_inheritable(fd, True)
    rank_process.begin_to_execute()
    line = run_call.command(*job.files, events, number)
    os.execve(line[0], line, rank_process.interpreter_environment(os.environ, job.setting.path))
