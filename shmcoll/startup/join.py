"""Joining a job.

A rank that `shmrun` started finds the arena's descriptor and nonce in SHMCOLL_ARENA and its number in RANK. Ranks that
another program started meet under a name (`launchers.py`, `rendezvous.py`). A process without a launcher joins a job of
its own, of one rank, and so does one that a rank has started (`marks.py`).

Programs between launcher and rank. Whatever the launcher has started for a rank, the first process there that calls
`init` is the rank: it alone writes the record of the rank, under a lock. A program in between may have closed the
arena's descriptor, as Python's `subprocess` does. Then the rank opens the arena of the launcher, which SHMCOLL_ARENA
names, and checks it as an inherited one. A later process, started before the rank had joined, finds the record. It
raises an error if the rank is alive, unless the rank has started it: then it is a job of its own. If the rank has left,
as the first of two programs in a script does, the ranks among the second programs meet under a name.
"""

import fcntl
import os
from collections.abc import Callable
from typing import Any

from shmcoll.communicator import Communicator
from shmcoll.diagnostics import late_settings
from shmcoll.engine import layout
from shmcoll.engine.compiler import object_cache
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import arena_file, records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system import log, refusals
from shmcoll.engine.system.green_threads import check_threads
from shmcoll.engine.system.processes import ancestors, check_proc, has_ended
from shmcoll.engine.system.switches import is_on
from shmcoll.engine.system.tracebacks import border
from shmcoll.errors import ArenaError, CallNotAllowed
from shmcoll.runtime import refused_calls, thread_team
from shmcoll.runtime.local_rank import LocalRank
from shmcoll.startup import launchers, marks, rank_process
from shmcoll.startup.defaults import JOIN_TIMEOUT, WAIT_TIMEOUT
from shmcoll.startup.launchers import MPI_LAUNCHERS, Placement, SeveralMachines, die_with_launcher, find_placement

USUAL = ("all_reduce", "barrier")  # routines that nearly every job uses

_joined: tuple[int, Communicator] | None = None


@border
def init(
    *, rank: int | None = None, size: int | None = None, job: str | None = None, leaders: int | None = None
) -> Communicator:
    """Join the job, and return its communicator. Further calls return the same communicator.

    Under shmrun, torchrun, mpiexec (Open MPI, MPICH, Intel MPI), srun and msrun, and in processes that have RANK and
    WORLD_SIZE in their environment, the environment says which rank this process is. Ranks that are started in any
    other way pass `rank`, `size` and `job`. A process without any of this is a job of one rank, and so is a program
    that a rank has started after it had joined.

    Ranks that mpiexec or srun has started on several machines form one communicator, too: between machines MPI carries
    the messages, through mpi4py (`pip install 'shmcoll[nodes]'`). SHMCOLL_NODE makes ranks of one machine belong to
    different nodes, for tests.

    Waits until rank 0 has joined, and on rank 0 until all ranks have, for up to 60 s (SHMCOLL_JOIN_TIMEOUT).

    Args:
        rank: this process's number, 0 to `size` - 1.
        size: the number of ranks.
        job: a name that the ranks share, and no other job of this user has.
        leaders: how many ranks of each machine talk to other machines about long arrays; see `shmcoll.from_mpi`.

    Returns:
        The communicator of all ranks.

    Raises:
        ArenaError: shared memory is not available, or is another job's.
        ShmcollError: ranks do not join in time or disagree on the size; or they are on several machines, and mpi4py is
            missing, or a machine has another version of shmcoll.
        CallNotAllowed: this process was forked by a rank, and is not a rank itself; or it was started by a rank of
            `job`; or gevent or eventlet has replaced Python's threads.
        ValueError: `rank`, `size` and `job` are not given together, or do not fit each other; or SHMCOLL_TIMEOUT or
            SHMCOLL_JOIN_TIMEOUT is not a number of seconds, or SHMCOLL_THREADS not one of threads.
    """
    if _joined is not None:
        pid, comm = _joined
        if pid != os.getpid():
            raise CallNotAllowed(
                f"this process was forked by rank {comm.rank} and is not a rank itself; "
                f"use collectives in the rank, or start more ranks with shmrun -n"
            )
        return comm
    refused_calls.check("init")
    check_threads("init")
    with refusals.in_words():
        return _init(rank, size, job, leaders)


def _init(rank: int | None, size: int | None, job: str | None, leaders: int | None) -> Communicator:
    try:
        arena, rank, launcher = _take_place(rank, size, job)
    except SeveralMachines as several:
        if several.launcher not in MPI_LAUNCHERS:
            raise
        found = several
    else:
        return _join(arena, rank, launcher, job)
    from shmcoll.startup import several_nodes

    comm = several_nodes.join(found.why, found.size_of_job, found.launcher, limits(), leaders)
    note_joined(comm)
    return comm


@border
def from_mpi(comm: Any, *, leaders: int | None = None) -> Communicator:
    """Return a communicator of the ranks of an MPI communicator, on one machine or on several.

    All ranks of `comm` call it. It is duplicated, so the program's own MPI messages never match those of shmcoll.
    `shmcoll.init()` returns the same communicator afterwards.

    Args:
        comm: an intracommunicator of mpi4py.
        leaders: how many ranks of each node talk to other nodes about long arrays. By default 4, or fewer if a node has
            fewer ranks or cores.

    Returns:
        The communicator. If all ranks are on one node, it is one as on any machine.

    Raises:
        TypeError: `comm` is not an intracommunicator.
        ShmcollError: mpi4py is missing; or, on all ranks, a node has another version of shmcoll, another byte order, an
            MPI without THREAD_MULTIPLE, or no room in /dev/shm.
        CallNotAllowed: this process has joined a job already, or gevent or eventlet has replaced Python's threads.
        ValueError: `leaders` is not positive.
    """
    from shmcoll.startup import several_nodes

    check_threads("from_mpi")
    mpi = several_nodes.running_mpi()
    if _joined is not None:
        raise CallNotAllowed(
            "from_mpi: this process has joined a job already; use its communicator, shmcoll.init(), and its split or "
            "subgroup for other ranks"
        )
    made = several_nodes.connect(mpi, comm, "mpi4py", limits(), leaders)
    note_joined(made)
    return made


def join_beside(key: str, rank: int, size: int, launcher: str, look: Callable[[], None] = lambda: None) -> Communicator:
    """Join a job whose ranks have agreed on a name and on their numbers, and return its communicator.

    A process may join any number of these, and what `init` returns stays as it is. It leaves such a job when it has
    closed the communicator, and all that were made from it. look: as in `rendezvous.meet`.
    """
    check_threads("joining")
    timeout, patience = limits()
    with refusals.in_words():
        if size == 1:
            arena = arenas.create(1, timeout=timeout)
        else:
            check_proc()
            from shmcoll.startup import rendezvous

            arena = rendezvous.meet(key, rank, size, wait_timeout=timeout, patience=patience, look=look)
        if rank:
            object_cache.leave_to_rank_0()
        rank_process.let_ranks_read(os.getppid())
        return Communicator(LocalRank(arena, rank, launcher, is_beside=True), Group.world(arena), "world")


def _join(arena: Arena, rank: int, launcher: str, job: str | None) -> Communicator:
    if rank:
        object_cache.leave_to_rank_0()
    rank_process.fix_folder()
    local_rank = LocalRank(arena, rank, launcher)
    log.note_joined(rank, arena.nonce)
    comm = Communicator(local_rank, Group.world(arena), "world")
    if is_on("SHMCOLL_SHARE_ARRAYS"):
        local_rank.share_arrays().share_everywhere()
    note_joined(comm, job)
    return comm


def _take_place(rank: int | None, size: int | None, job: str | None) -> tuple[Arena, int, str]:
    """Return the arena, this rank's number, and the name of the launcher."""
    place: Placement | None
    timeout, patience = limits()
    # Removed from the environment, because a process that this rank starts is not a rank
    if (rank, size, job) != (None, None, None):
        place = _explicit(rank, size, job)
    elif given := os.environ.pop("SHMCOLL_ARENA", None):
        arena, number, launcher = _inherited(given), _number("RANK"), os.environ.pop("SHMCOLL_LAUNCHER", "shmrun")
        if not 0 <= number < arena.ranks:
            raise ArenaError(f"RANK={number} is not a rank of this job of {arena.ranks}")
        if _claim(arena, number):
            rank_process.let_ranks_read(arena.load(layout.JOB_CREATOR))
            return arena, number, launcher
        place = _late_place(arena, number, launcher)
    else:
        place = find_placement(os.environ)
        if place is not None:
            die_with_launcher(place, os.environ)
    if place is None or place.size == 1:
        return arenas.create(1, timeout=timeout), 0, place.launcher if place else "none"
    check_proc()  # without it, any process that is checked seems to have ended
    from shmcoll.startup import foreign_end, rendezvous

    arena = rendezvous.meet(place.key, place.rank, place.size, wait_timeout=timeout, patience=patience)
    rank_process.let_ranks_read(os.getppid())
    foreign_end.install()
    return arena, place.rank, place.launcher


def _explicit(rank: int | None, size: int | None, job: str | None) -> Placement:
    if rank is None or size is None or not job:
        raise ValueError(f"init needs rank, size and job together, got rank={rank!r}, size={size!r}, job={job!r}")
    if not isinstance(job, str):
        raise TypeError(f"job must be a string, got {type(job).__name__}")
    if not 0 <= rank < size:
        raise ValueError(f"rank {rank} is not a rank of a job of {size}")
    arenas.check_ranks(size)
    if (mark := marks.of_other(os.environ)) and mark.is_in(job):
        raise CallNotAllowed(
            f"process {mark.pid}, a rank of job {job!r}, has started this process, which is not a rank itself; use "
            f"collectives in the rank, or give another job another name"
        )
    return Placement("explicit", rank, size, f"explicit:{job}")


def limits() -> tuple[float, float]:
    """Return the limits of one wait and of joining, in seconds."""
    late_settings.note()
    log.check_level()
    thread_team.check()
    return seconds("SHMCOLL_TIMEOUT", WAIT_TIMEOUT), seconds("SHMCOLL_JOIN_TIMEOUT", JOIN_TIMEOUT)


def note_joined(comm: Communicator, job: str | None = None) -> None:
    """Have `init` return this communicator from now on. job: the name that this process has joined under."""
    global _joined
    _joined = os.getpid(), comm
    launchers.mark_children(job)


def forget() -> None:
    """Forget, in a fork of a process that has joined a job, that job: the fork is going to be a rank of another one."""
    global _joined
    _joined = None


def preload(progress: Callable[[str], None] | None = None) -> None:
    """Load into this process the usual routines that have been compiled. Starts no thread. For launchers.

    The ranks compile the others, because the job may never call them. If compiled code cannot be kept, they are
    compiled here, once for all ranks that are forks of this process.
    """
    from shmcoll.collectives import RECORDS
    from shmcoll.engine.compiler.compile import load_routine

    for name in USUAL:
        if object_cache.holds(name) or not object_cache.can_keep():
            load_routine(RECORDS[name], progress)


def _inherited(given: str) -> Arena:
    """Return the arena behind the inherited descriptor, or else the launcher's, which has the same number."""
    fd, nonce, launcher = [*given.split(":"), "", ""][:3]
    if not (nonce and all(number.isdecimal() and int(number) < 1 << 31 for number in (fd, launcher))):
        raise ArenaError(f"SHMCOLL_ARENA={given!r} is not 'descriptor:nonce:process'; it is set by shmrun, not by hand")
    try:
        return arenas.attach(int(fd), nonce)
    except ArenaError as error:
        opened = arena_file.open_of(int(launcher), int(fd))
        if opened is None:
            raise ArenaError(f"{error}, and process {launcher}, the launcher, does not show it") from None
        return arenas.attach(opened, nonce)


def _claim(arena: Arena, rank: int) -> bool:
    """Become this rank, if no process has been it."""
    record = layout.record_offset(arena.ranks, rank, layout.BY_RANK)
    try:
        fcntl.lockf(arena.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, layout.WORD, record)
    except OSError:
        raise ArenaError(f"another process joins as rank {rank} now; one process per rank calls init()") from None
    try:
        if records.read(arena, rank, layout.BY_RANK).state != records.UNBORN:
            return False
        records.write(arena, rank, layout.BY_RANK, records.JOINED, pid=os.getpid())
        return True
    finally:
        fcntl.lockf(arena.fd, fcntl.LOCK_UN, layout.WORD, record)


def _late_place(arena: Arena, rank: int, launcher: str) -> Placement | None:
    """Return the place of a process where another one is, or was, the rank; None if that one has started it.

    Raises `ArenaError` if that one lives and has not.
    """
    first = records.read(arena, rank, layout.BY_RANK)
    key, size = f"{launcher}:{arena.nonce}", arena.ranks
    arena.close()
    if has_ended(first.pid, first.start):
        return Placement(launcher, rank, size, key)
    if first.pid in (pid for pid, _ in ancestors()):
        return None
    raise ArenaError(f"rank {rank} of this job is process {first.pid}; one process per rank calls init()")


def _number(name: str) -> int:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        raise ArenaError(f"{name} is {os.environ.get(name)!r}, expected the number that shmrun sets") from None


def seconds(name: str, default: float) -> float:
    """Return a limit in seconds from the environment. Raises `ValueError` if it is not a number of seconds."""
    value = os.environ.get(name) or str(default)
    try:
        limit = float(value)
    except ValueError:
        limit = 0.0
    if not 1e-6 <= limit <= 1e9:
        raise ValueError(f"{name}={value!r} is not a positive number of seconds, from 1e-6 to 1e9")
    return limit
