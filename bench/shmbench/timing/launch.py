"""How the ranks of each library are started, each by its own launcher, and the message if that fails."""

import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO

from shmbench.timing.peers import PEERS, SCRIPTS, Home, environment
from shmcoll.engine.system.interpreter import flags, interpreter_environment
from shmcoll.startup.rank_process import die_with

Command = tuple[list[str], dict[str, str]]  # with its environment
END_SECONDS = 5
SHORTEST_ROUND = 0.01  # seconds


class Failed(Exception):
    """The run of a library failed. The text is one line with the reason."""


def run(library: str, homes: Mapping[str, Home], arguments: Sequence[str], ranks: int, timeout: float) -> None:
    """Run the benchmark on shmcoll, or on a peer, which has a home. Raises `Failed`, also if the time is over."""
    run_all(_commands(library, homes, arguments, ranks), timeout)


def run_all(commands: Sequence[Command], timeout: float) -> None:
    """Run commands at the same time. Raises `Failed`, also if the time is over."""
    with tempfile.TemporaryFile() as told, started(commands, told) as processes:
        try:
            for process in processes:
                if process.wait(timeout):
                    raise Failed(f"exit code {process.returncode}: {reason(told)}")
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {timeout:g} s") from None


@contextmanager
def beside(library: str, homes: Mapping[str, Home], jobs: int, ranks: int, timeout: float) -> Iterator[None]:
    """Have so many other jobs of a library work for the time of the block, and at least `timeout` seconds if it takes
    longer: they sum up arrays of 64 KiB. Raises `Failed` if they do not start, or end before the block."""
    rounds = math.ceil(timeout / SHORTEST_ROUND)
    arguments = ["all_reduce", "-n", str(ranks), "--sizes", "64K", "-c", "0", "--rounds", str(rounds)]
    commands = [command for _ in range(jobs) for command in _commands(library, homes, arguments, ranks)]
    with tempfile.TemporaryFile() as told, started(commands, told) as processes:
        _await_table(told, processes, timeout)
        yield
        _check_running(processes, told)


def _await_table(told: IO[bytes], processes: Sequence[subprocess.Popen[bytes]], timeout: float) -> None:
    """Return when a job has printed the head of its table: then it measures. The others were started with it.

    The jobs write at the offset of this file, which may not be moved.
    """
    deadline = time.monotonic() + timeout
    while processes and not re.search(rb"^# ", os.pread(told.fileno(), 1 << 16, 0), re.MULTILINE):
        _check_running(processes, told)
        if time.monotonic() > deadline:
            raise Failed(f"a job beside it has not started after {timeout:g} s")
        time.sleep(0.01)


def _check_running(processes: Sequence[subprocess.Popen[bytes]], told: IO[bytes]) -> None:
    for process in processes:
        if process.poll() is not None:
            raise Failed(f"a job beside it: exit code {process.returncode}: {reason(told)}")


def _commands(library: str, homes: Mapping[str, Home], arguments: Sequence[str], ranks: int) -> list[Command]:
    """Return the commands to start at the same time."""
    if library == "shmcoll":
        return [
            ([sys.executable, *flags(), "-m", "shmbench", *arguments], interpreter_environment(os.environ, sys.path))
        ]
    peer, home = PEERS[library], homes[library]
    command = [str(home.python), str(SCRIPTS / peer.script), *arguments]
    variables = environment()
    if peer.mpiexec is not None:
        return [([str(home.mpiexec), *peer.mpiexec, "-n", str(ranks), *command], variables)]
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(ranks)}
    return [(command, variables | {"RANK": str(rank)}) for rank in range(ranks)]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def started(commands: Sequence[Command], told: IO[bytes]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start all of them. Those that still run at the end are ended, with all processes that they have started."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command, variables in commands:
            processes.append(
                subprocess.Popen(
                    command,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=told,
                    stderr=subprocess.STDOUT,
                    preexec_fn=partial(die_with, os.getpid()),
                    process_group=0,  # no session for each: see shmrun/start/foreground.py
                )
            )
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a launcher. If it is asked to end, it ends its ranks, in whatever groups they are; if it is killed, it
    cannot."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, number)
        try:
            process.wait(END_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


def reason(told: IO[bytes]) -> str:
    """Return the most useful line of the output: the last one that names an error, or the last one."""
    told.seek(0)
    lines = [line.strip() for line in told.read().decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "FAILED" in line]
    return (errors or lines or ["nothing printed"])[-1]
