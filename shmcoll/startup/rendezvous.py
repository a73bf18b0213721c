"""How ranks meet that nobody has given a descriptor: under a name, for as long as it takes.

Rank 0 creates the arena under a name made from the user id and the job's key (O_EXCL, mode 0600); the others open it,
check that it is ours, and register; when all have, rank 0 takes the name away and lets them in. Who writes what:

    job page           rank 0, before anybody may look: its magic word is stored last
    record by rank r   rank r: JOINED, with its pid and start time. A request to take part
    record by launcher rank 0, for there is no launcher: JOINED, with the pid that it has seen, once all are there
    doorbells          rung after each of the two, so that nobody has to poll fast; slices of 20 ms all the same

Why nobody waits for ever: each rank has a deadline, and in each slice looks whether rank 0, whose pid and start time
stand in the job page, is alive. Rank 0 counts only ranks that are. All are let in together, so that nobody goes on to
wait for a rank that has never come, whose death no pidfd could tell. Where rank 0 cannot make the arena, the others
learn why (`rendezvous_errors.py`).

A name whose creator is dead is a left-over. Whoever meets it removes it: under a file lock on the object, after
making sure that the name still means this object, so that no two ranks remove each other's. Rank 0 looks through all of
our user's names as it starts. A name whose creator lives belongs to a job: for rank 0 that is an error.

Two processes that claim to be the same rank: they register under a file lock, and the second finds the first.

Anybody may make a file in /dev/shm that has our prefix, and lock it. So the owner comes first: what belongs to another
user is neither opened nor removed, and where it has the very name of this job, every rank says so, for no rank can meet
there. Nobody waits for a lock longer than for the other ranks: a process of ours that holds it may be stopped. A name
that cannot be locked is left alone, unless it is this job's.
"""

import contextlib
import fcntl
import hashlib
import os
import time
from pathlib import Path

from shmcoll.engine import atomics, layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.system.processes import has_ended, process_start
from shmcoll.errors import ArenaError, ShmcollError
from shmcoll.startup import rendezvous_errors

SLICE_NS = 20_000_000
MAKING = 10.0  # seconds that the making of an arena takes at the very most
_FOLDER = Path("/dev/shm")


def meet(key: str, rank: int, size: int, *, wait_timeout: float, patience: float) -> Arena:
    """The arena of the job `key`, mapped, with this rank acknowledged; on rank 0 with all ranks.

    wait_timeout: limit of one wait in collectives, in seconds; patience: how long to wait for the other ranks here.
    Raises `ArenaError` when the name belongs to another job or is not ours, or when there is too little memory, on all
    ranks; `ShmcollError` when ranks do not come or disagree on the size.
    """
    name = name_of(key)
    end = time.monotonic() + patience
    if rank == 0:
        arena = _create(name, key, size, wait_timeout, end)
        records.write(arena, 0, layout.BY_RANK, records.JOINED, pid=os.getpid())  # who is let in may miss us at once
        return _gather_ranks(arena, name, end)
    while True:
        arena = _open(name, key, end, rank)
        if arena.ranks != size:
            raise ShmcollError(f"rank {rank} says that job {key!r} has {size} ranks, rank 0 says {arena.ranks}")
        if _register(arena, rank, key, end):
            return arena
        arena.close()


def name_of(key: str) -> str:
    """The name under which the ranks of a job meet: one per user and key."""
    return f"/shmcoll.{os.geteuid()}.{hashlib.sha256(key.encode()).hexdigest()[:32]}"


# --- rank 0 -----------------------------------------------------------------------------------------------------------


def _create(name: str, key: str, size: int, wait_timeout: float, end: float) -> Arena:
    for path in _FOLDER.glob(f"shmcoll.{os.geteuid()}.*"):
        if path != _path(name):
            _remove_leftover(f"/{path.name}")
    while not _remove_leftover(name):
        if time.monotonic() > end:
            raise ArenaError(
                f"{_path(name)}, under which job {key!r} meets, is locked by a process that does not go on"
            )
        time.sleep(0.002)
    _refuse_stranger(name, key)  # as the others do: nobody has to be told
    try:
        return arenas.create(size, timeout=wait_timeout, name=name)
    except FileExistsError:
        _refuse_stranger(name, key)
        raise ArenaError(
            f"job {key!r} is running already: its rank 0 is another living process. "
            f"Give this one another name, as in shmcoll.init(job=...)"
        ) from None
    except (ArenaError, ValueError) as error:
        rendezvous_errors.tell(name, size, error, end)
        raise


def _gather_ranks(arena: Arena, name: str, end: float) -> Arena:
    """Wait until every rank has registered, take the name away, and let them all in; the name goes also on failure."""
    try:
        while True:
            pids = {rank: told.pid for rank in range(1, arena.ranks) if (told := _registered(arena, rank))}
            if len(pids) == arena.ranks - 1:
                break
            if time.monotonic() > end:
                missing = sorted(set(range(1, arena.ranks)) - set(pids))
                text = f"ranks {missing} of {arena.ranks} have not joined within the time given"
                raise ShmcollError(f"{text}; start all ranks, or raise SHMCOLL_JOIN_TIMEOUT")
            atomics.sleep_on(arena.doorbell(0), SLICE_NS)
    finally:
        arenas.unlink(name)
    for rank, pid in pids.items():
        records.write(arena, rank, layout.BY_LAUNCHER, records.JOINED, pid=pid)
        atomics.ring(arena.doorbell(rank))
    return arena


def _registered(arena: Arena, rank: int) -> records.Record | None:
    """The request of a rank that is alive."""
    told = records.read(arena, rank, layout.BY_RANK)
    return told if told.state == records.JOINED and process_start(told.pid) == told.start != 0 else None


# --- the others -------------------------------------------------------------------------------------------------------


def _open(name: str, key: str, end: float, rank: int) -> Arena:
    """The arena under the name as soon as a living rank 0 has made it."""
    while True:
        _refuse_stranger(name, key)
        arena = arenas.open_named(name)
        if arena is not None and _creator_lives(arena):
            return arena
        if arena is not None:
            arena.close()
            _remove_leftover(name)
        rendezvous_errors.ask(name, key, rank, end)
        if time.monotonic() > end:
            raise ShmcollError(
                f"rank {rank} has waited in vain for rank 0 of job {key!r}; start all ranks, on this machine and as "
                f"the same user, or raise SHMCOLL_JOIN_TIMEOUT"
            )
        time.sleep(0.002)


def _register(arena: Arena, rank: int, key: str, end: float) -> bool:
    """Ask rank 0 to be let in. False when rank 0 has died meanwhile: somebody may start it again."""
    while not _lock(arena.fd):
        if time.monotonic() > end:
            raise ShmcollError(f"rank {rank} of job {key!r}: a process that does not go on holds the lock of the arena")
        time.sleep(0.002)
    holder = _registered(arena, rank)
    if holder is None:
        records.write(arena, rank, layout.BY_RANK, records.JOINED, pid=os.getpid())
    fcntl.flock(arena.fd, fcntl.LOCK_UN)
    if holder is not None:
        raise ArenaError(f"rank {rank} of job {key!r} is taken by process {holder.pid}; is the job started twice?")
    atomics.ring(arena.doorbell(0))
    while True:
        if records.read(arena, rank, layout.BY_LAUNCHER).pid == os.getpid():
            return True
        if not _creator_lives(arena):
            # Once more: it may have let us in, done its work, and ended, all since we looked
            return records.read(arena, rank, layout.BY_LAUNCHER).pid == os.getpid()
        if time.monotonic() > end:
            raise ShmcollError(f"rank 0 of job {key!r} lives but has not let rank {rank} in")
        atomics.sleep_on(arena.doorbell(rank), SLICE_NS)


def _creator_lives(arena: Arena) -> bool:
    start = arena.load(layout.JOB_CREATOR_START)
    return start != 0 and not has_ended(arena.load(layout.JOB_CREATOR), start)


def _refuse_stranger(name: str, key: str) -> None:
    """Raise `ArenaError` where another user has the name of this job."""
    with contextlib.suppress(FileNotFoundError):
        owner = _path(name).lstat().st_uid
        if owner != os.geteuid():
            raise ArenaError(
                f"{_path(name)}, under which the ranks of job {key!r} meet, belongs to uid {owner}, not to uid "
                f"{os.geteuid()}: that user keeps the job from starting. Have the file removed, or give the job "
                f"another name, as in shmcoll.init(job=...)"
            )


def _remove_leftover(name: str) -> bool:
    """Remove a name of ours whose creator is dead, or that nobody has finished making for MAKING seconds.

    False where that could not be judged, because another process holds the lock.
    """
    with contextlib.suppress(OSError, ArenaError):
        if _path(name).lstat().st_uid != os.geteuid():
            return True
        fd = os.open(_path(name), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            held = os.fstat(fd)
            if held.st_uid != os.geteuid():
                return True
            if not _lock(fd):
                return False
            if _path(name).lstat().st_ino == held.st_ino:
                arena = arenas.open_descriptor(os.dup(fd))  # what the lock is on, whatever the name means by now
                dead = time.time() - held.st_mtime > MAKING if arena is None else not _creator_lives(arena)
                if arena is not None:
                    arena.close()
                if dead:
                    arenas.unlink(name)
        finally:
            os.close(fd)
    return True


def _lock(fd: int) -> bool:
    """Whether we have the file lock now; it goes with the descriptor."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _path(name: str) -> Path:
    return _FOLDER / name.lstrip("/")
