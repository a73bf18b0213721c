"""How the ranks of a team begin: as forks of pytest's process, or as interpreters of their own."""

import os
import socket
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from shmcoll.engine.memory.arena import Arena
from shmcoll.errors import ShmcollError
from shmcoll.pytest_plugin import coverage, fixtures, marks, spawned
from shmcoll.pytest_plugin.member import Member
from shmcoll.pytest_plugin.rank import Files, RankSide
from shmcoll.startup import join, rank_process


@dataclass(frozen=True)
class Beginning:
    """What the ranks of a team begin with. item: their first test. folder: begins the names of the folders for their
    temporary directories."""

    item: pytest.Item
    arena: Arena
    folder: Path


def start(beginning: Beginning, started: list[Member]) -> None:
    """Start the ranks, appending each to `started`.

    Raises `ShmcollError` if the system cannot start this number of processes. Those in `started` run then.
    """
    environment = dict(os.environ)
    try:
        rank_process.prepare_environment()
        spawns = marks.spawns(beginning.item.config)
        if not spawns:
            join.preload()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number in range(beginning.arena.ranks):
            _start_one(beginning, started, number, spawns)
    finally:
        os.environ.clear()
        os.environ.update(environment)


def _start_one(beginning: Beginning, started: list[Member], number: int, spawns: bool) -> None:
    starter, begin = os.getpid(), time.monotonic_ns()
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        files = Files.new()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads: pytest's, which the rank lacks
            pid = os.fork()
        if pid == 0:
            _become(beginning, number, starter, [*started, ours], theirs, files, spawns)
        theirs.close()
        ours.setblocking(False)
        started.append(Member(number, pid, -1, begin, ours, files=files))
        started[-1].pidfd = os.pidfd_open(pid)
    except OSError as e:
        raise ShmcollError(rank_process.cannot_start(number, beginning.arena.ranks, e)) from e


def _become(
    beginning: Beginning,
    number: int,
    starter: int,
    others: list[Member | socket.socket],
    control: socket.socket,
    files: Files,
    spawns: bool,
) -> NoReturn:
    """Turn into a rank, in the child. others: what belongs to pytest's process alone."""
    try:
        item, arena = beginning.item, beginning.arena
        rank_process.begin(starter, arena, number, "pytest")
        for one in others:
            one.close()
        folder = beginning.folder.with_name(f"{beginning.folder.name}-rank{number}")
        captured = fixtures.captures(item.config)
        terminal = fixtures.terminal(item.config)
        output = (files.out, files.err) if captured else None
        if spawns:
            spawned.execute(item, number, arena.fd, control, files, terminal, output, folder)
        side = RankSide(item.session, number, control, files, terminal, captured)
        fixtures.begin_in_fork(item.session, folder, output)
        rank_process.begin_in_fork(arena)
        coverage.begin_in_fork()
        side.serve()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(126)
