"""Two groups of processes become the ranks of one job, beside the jobs that they are in.

Each group has a communicator, and one process of it, its root, holds an end of a connection between the two. The steps:

    1   each group gathers who its processes are: `Process`
    2   each root sends a hello: a random token, the machine, the processes of its group. Or what prevents them
    3   a root that has read the other's hello sends READY. One that has read READY, too, goes on (`greeting.py`)
    4   each root broadcasts to its group what it has learnt, or why nothing came of it
    5   all join a job whose name is a hash of both tokens (`rendezvous.py`). The group with the smaller token has the
        first ranks

All processes know both hellos after step 4, so all come to the same result. A root that gave up before it has sent
READY has closed its connection: the other root reads that, and does not go on. One that is interrupted between the two
READY leaves the other group alone in step 5, for the limit of joining.

Nobody waits forever. In steps 2 and 3 a root has a limit of time, and looks at what its caller watches. It repeats
step 4 with "not yet" while it waits for somebody to connect, so that the waits of the others stay short. In step 5
everybody looks whether a process of either group has ended, and the job has the limit of joining.
"""

import hashlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shmcoll.communicator import Communicator
from shmcoll.engine.system.handlers import ignored, reraise_of_handler
from shmcoll.engine.system.processes import has_ended, process_start
from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import RankFailed, ShmcollError
from shmcoll.startup import greeting
from shmcoll.startup import join as startup
from shmcoll.startup.greeting import Hello, Look, Process
from shmcoll.startup.ports import Port

_PAUSE = 1.0  # seconds after which a group that accepts hears "not yet"


class NotMet(ShmcollError):
    """Nothing came of a meeting. The text says why."""


class Elsewhere(NotMet):
    """The other processes share no memory with these."""


@dataclass(frozen=True)
class Joined:
    """The job. world: the communicator of all. members: its processes, by rank. first: whether this group's come
    first."""

    world: Communicator
    members: tuple[Process, ...]
    first: bool


def this_process(job: Communicator) -> Process:
    """Return who this process is. job: the communicator of the job that it has joined first."""
    pid = os.getpid()
    return Process(job._local_rank.arena.nonce, job._local_rank.rank, pid, process_start(pid))


def accept(
    comm: Communicator, root: int, me: Process, opened: Callable[[], Port], *, limit: float | None = None, look: Look
) -> Joined:
    """Wait for a group that connects to a port, and join it. All ranks of `comm` call it.

    Args:
        comm: the group.
        root: the rank that has the port.
        me: this process.
        opened: on the root: returns the port, perhaps for the first time.
        limit: seconds to wait for a connection; None: any time.
        look: on the root: called while it waits. What it raises ends the wait on all ranks.

    Raises:
        NotMet: on all ranks, why nothing came of it.
        RankFailed: a process of either group has ended.
    """
    end = None if limit is None else time.monotonic() + limit

    def greet(members: Sequence[Process]) -> list[Hello] | None:
        port = opened()
        pause = time.monotonic() + min(comm.timeout / 4, _PAUSE)
        while True:
            if line := port.take():
                with line, ignored(OSError):
                    return greeting.greet(line, "0", members, time.monotonic() + greeting.HEARING, look)
            look()
            now = time.monotonic()
            if end is not None and now > end:
                raise NotMet(f"nobody has connected within {limit:g} s")
            if now > pause:
                return None
            greeting.can_read(port.listener)

    return _join(comm, root, me, greet)


def connect(comm: Communicator, root: int, me: Process, open_line: Callable[[], socket.socket], place: str) -> Joined:
    """Join the group at the other end of a connection. All ranks of `comm` call it.

    Args:
        comm: the group.
        root: the rank that makes the connection.
        me: this process.
        open_line: on the root: makes it.
        place: "1" for the side that has connected to a port; "" where both sides are alike.

    Raises:
        NotMet, RankFailed: as by `accept`.
    """

    limit = 0.9 * comm.timeout  # the other ranks wait for the root meanwhile

    def greet(members: Sequence[Process]) -> list[Hello]:
        with open_line() as line:
            try:
                return greeting.greet(line, place, members, time.monotonic() + limit, lambda: None)
            except TimeoutError:
                raise NotMet(f"the other side has not answered within {limit:g} s") from None
            except OSError as error:
                raise NotMet(f"the other side has ended the connection: {error}") from None

    return _join(comm, root, me, greet)


def _join(
    comm: Communicator, root: int, me: Process, greet: Callable[[Sequence[Process]], list[Hello] | None]
) -> Joined:
    gathered = [Process(*one) for one in comm.all_gather_object(tuple(me))]
    told: Any = None
    while told is None:
        raised: Exception | None = None
        if comm.rank == root:
            try:
                told = greet(gathered)
            except Exception as error:
                reraise_of_handler(error)
                raised, told = error, str(error) or type(error).__name__
        told = comm.broadcast_object(told, root)
    if raised is not None:
        raise raised
    if isinstance(told, str):
        raise NotMet(told)
    mine, theirs = told
    if "error" in theirs:
        raise NotMet(theirs["error"])
    return meet(me, mine, theirs, comm.launcher)


def meet(me: Process, mine: Hello, theirs: Hello, launcher: str) -> Joined:
    """Join the job of two groups. All processes of both call it, with what their roots have said.

    Raises:
        NotMet: they cannot.
        RankFailed: one of them has ended.
    """
    if mine["machine"] != theirs["machine"]:
        raise Elsewhere("the other processes are on another machine, or have another /dev/shm")
    sides = sorted((mine, theirs), key=lambda side: str(side["token"]))
    members = tuple(Process(*one) for side in sides for one in side["members"])
    if len(set(members)) < len(members):
        raise NotMet("a process cannot be in both groups")
    key = hashlib.sha256(to_bytes("".join(side["token"] for side in sides))).hexdigest()

    def look() -> None:
        for rank, one in enumerate(members):
            if has_ended(one.pid, one.start):
                raise RankFailed(f"rank {rank}, process {one.pid}, has ended before all had joined", rank=rank)

    rank = members.index(me)
    world = startup.join_beside(f"beside:{key}", rank, len(members), launcher, look=look)
    return Joined(world, members, sides[0] is mine)
