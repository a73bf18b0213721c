"""Joining a job.

A rank that `shmrun` started finds the arena's descriptor and nonce in SHMCOLL_ARENA and its number in RANK. A process
that nobody started joins a job of its own, of one rank. How a rank ends is told to its peers from here: an uncaught
exception ends the world at once, quoting it; a normal end writes 'departed', an error only for those who still need
the rank.
"""

import atexit
import os
import sys
from collections.abc import Callable
from types import TracebackType

from shmcoll import warm
from shmcoll.communicator import Communicator
from shmcoll.engine import arena as arenas
from shmcoll.engine import layout, records
from shmcoll.engine.arena import Arena
from shmcoll.errors import ArenaError, ShmcollError

DEFAULT_TIMEOUT = 300.0

_joined: tuple[int, Communicator] | None = None


def init() -> Communicator:
    """Join the job; every further call returns the same communicator.

    Under `shmrun` that is the world of its ranks, otherwise a job of one rank. Raises `ArenaError` when the arena is
    not what it should be, and `RuntimeError` in a process that a rank has forked: it is no rank itself.
    """
    global _joined
    if _joined is not None:
        pid, comm = _joined
        if pid != os.getpid():
            raise RuntimeError(
                f"this process was forked by rank {comm.rank} and is no rank itself; "
                f"use collectives in the rank, or start more ranks with shmrun -n"
            )
        return comm
    # Taken out of the environment: what this rank starts is no rank
    given = os.environ.pop("SHMCOLL_ARENA", None)
    if given:
        arena, rank, launcher = _inherited(given), _number("RANK"), "shmrun"
        if not 0 <= rank < arena.ranks:
            raise ArenaError(f"RANK={rank} is no rank of this job of {arena.ranks}")
    else:
        _refuse_other_launchers()
        arena, rank, launcher = arenas.create(1, timeout=_timeout()), 0, "none"
    comm = Communicator(arena, rank, launcher)
    records.write(arena, rank, layout.BY_RANK, records.JOINED, pid=os.getpid())
    _joined = os.getpid(), comm
    _tell_the_end(arena, rank)
    return comm


def preload(progress: Callable[[str], None] | None = None) -> None:
    """Load every routine into this process, compiling what the cache lacks. Starts no thread; for launchers."""
    warm.preload(progress)


def _inherited(given: str) -> Arena:
    fd, _, nonce = given.partition(":")
    if not fd.isdigit():
        raise ArenaError(f"SHMCOLL_ARENA={given!r} is not 'descriptor:nonce'; it is set by shmrun, not by hand")
    return arenas.attach(int(fd), nonce)


def _refuse_other_launchers() -> None:
    """A job of one rank, silently, is the last thing that a rank of another launcher wants."""
    for name in ("WORLD_SIZE", "RANK_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MS_WORKER_NUM"):
        if os.environ.get(name, "1") not in ("", "1"):
            raise ShmcollError(
                f"{name}={os.environ[name]} says that this is one of several ranks, but shmrun did not start it. "
                f"Start the ranks with: shmrun -n {os.environ[name]} script.py (or unset {name} to run alone)"
            )


def _number(name: str) -> int:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        raise ArenaError(f"{name} is {os.environ.get(name)!r}, expected the number that shmrun sets") from None


def _timeout() -> float:
    value = os.environ.get("SHMCOLL_TIMEOUT", str(DEFAULT_TIMEOUT))
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 1e9:
        raise ValueError(f"SHMCOLL_TIMEOUT={value!r} is not a positive number of seconds")
    return seconds


def _tell_the_end(arena: Arena, rank: int) -> None:
    """Tell the peers how this rank ends: by exception through the excepthook, normally at exit."""
    me = os.getpid()
    previous = sys.excepthook

    def failed(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if os.getpid() == me and records.read(arena, rank, layout.BY_RANK).state != records.FAILED:
            text = f"rank {rank} raised {kind.__name__}: {error}"
            records.write(arena, rank, layout.BY_RANK, records.FAILED, records.RAISED, 1, text)
            records.abort(arena, arena.world)
        previous(kind, error, traceback)

    def departed() -> None:
        told = records.read(arena, rank, layout.BY_RANK)
        if os.getpid() == me and told.state == records.JOINED:
            records.write(arena, rank, layout.BY_RANK, records.DEPARTED, text=told.text, pid=me)
            records.ring_all(arena, arena.world)

    sys.excepthook = failed
    atexit.register(departed)
