"""How ranks of other launchers meet in one arena: under names in /dev/shm.

Each process that claims to be rank 0 makes an arena of its own, under a name of its own (`arena_names.py`). A file of
another user is never opened, so no other user can prevent a job from starting. Four stages follow each other:

    claimed      the arena has its name; its rank 0 does not know yet whether it is the only one
    open         ranks may register
    closed       the group is complete: exactly the processes that have registered are let in
    withdrawn    rank 0 has given up, at any stage, or its process has ended

The words, and the processes that write them. `record by rank` and `record by launcher` are described in
`engine/memory/records.py`.

    job page                 its rank 0, before the arena has a name. Pid and start time of the creator are in it
    record 0 by rank         rank 0: JOINED opens the arena, FAILED withdraws it
    record 0 by launcher     rank 0, under the file lock of the arena: JOINED closes it
    record r by rank         rank r, under the lock, while the arena is open: JOINED with its pid registers it.
                             FAILED, without the lock: it has stopped waiting
    record r by launcher     rank 0, after it has closed the arena and removed the name: JOINED with the pid that is in
                             the record by rank: this process is let in
    doorbells                rung after a rank has registered (rank 0's), and after it was let in (its own)

Rank 0 does this, in this order. It makes the arena and gives it its name. It lists all names of the job. It opens the
arena when no other living process has one that is claimed or open. It waits until all ranks have registered. It takes
the lock, checks that all are still there, and closes the arena. It removes the name, and lets all in. If it finds
another arena that is open, it withdraws: the job was started twice. If it finds one that is claimed, the one whose name
sorts last withdraws, and the other one waits until that has happened. A withdrawal first writes the record, then
removes the name.

Rank r does this. It lists the names of the job until it finds an open arena. It takes the lock. If the arena is still
open and no living process has registered as rank r, it registers. Then it waits to be let in. If the arena is
withdrawn, or its rank 0 has ended, it checks once more whether it was let in before that, and otherwise begins again.

At most one arena of a job is open. Each rank 0 publishes its name before it lists the others, and a listing is
complete. So if there are two of them, at least one sees the other, and opens its arena only after the other one is
withdrawn, closed, or left over. The order of names decides between two that see each other, so not both withdraw.

No two groups meet in one arena. A process has been let in exactly if its pid is in the record by launcher, which is
written once per rank. The lock keeps registering and closing apart, so no process registers in a closed arena.

No group is half in one arena and half in another. A process leaves an arena in which it has registered only when that
arena is withdrawn or its rank 0 has ended, and not if it was let in. All processes that are let in had registered, and
lived, at the instant at which the arena was closed. Each of them is let in, unless rank 0 dies or withdraws first. In
that case the processes that are in learn that rank 0 has failed, as in any collective. The others go to the arena of
the next rank 0, which is closed only when a living process has registered there for each rank.

No process waits forever. Every process has a deadline, and in each slice of 20 ms checks whether rank 0 lives. No
process waits for a lock beyond the deadline, because the holder may be stopped. A rank 0 that waits for a claimed arena
checks whether its creator lives. All are let in together, so no rank waits for one that has never started. When rank 0
cannot make an arena, the others learn the reason (`rendezvous_errors.py`).

A kill leaves at most a name, between its creation and its removal. Every process that finds it removes it, and each
rank 0 that starts removes all of its user's left-over names.

The cost of waiting. A listing takes time that grows with the number of files in /dev/shm, and any user can create many.
So a process pauses four times as long as its listing took: it uses a fifth of a core at most.
"""

import contextlib
import enum
import fcntl
import os
import time
from collections.abc import Callable, Iterator

from shmcoll.engine import atomics, layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.protocol.wait import SLICE_NS
from shmcoll.engine.system import refusals
from shmcoll.engine.system.processes import has_ended, process_start
from shmcoll.errors import ArenaError, ShmcollError
from shmcoll.startup import arena_names, rendezvous_errors

_PAUSE = 0.002  # seconds between two listings, unless these take long


class Stage(enum.Enum):
    """The stage of the meeting in an arena."""

    CLAIMED = enum.auto()
    OPEN = enum.auto()
    CLOSED = enum.auto()
    WITHDRAWN = enum.auto()


def meet(
    key: str, rank: int, size: int, *, wait_timeout: float, patience: float, look: Callable[[], None] = lambda: None
) -> Arena:
    """Wait until all ranks of the job `key` have registered, and return their arena, mapped.

    wait_timeout: limit of one wait in collectives, in seconds.
    patience: how long to wait for the other ranks here, in seconds.
    look: called now and then; raises what shows that not all of them will come.
    Raises `ArenaError` if another process is this rank already, and on all ranks if there is too little memory.
    Raises `ShmcollError` if ranks do not arrive or disagree on the size.
    """
    end = time.monotonic() + patience
    if rank == 0:
        return _lead(key, size, wait_timeout, end, look)
    while True:
        arena = _find(key, rank, end, look)
        joined = False
        try:
            if arena.ranks != size:
                raise ShmcollError(f"rank {rank} says that job {key!r} has {size} ranks, rank 0 says {arena.ranks}")
            joined = _register(arena, rank, key, end, look)
            if joined:
                return arena
        finally:
            if not joined:
                arena.close()


def _attach(fd: int) -> Arena:
    own = os.dup(fd)
    try:
        return arenas.attach(own, None)
    except BaseException:
        os.close(own)
        raise


def _stage(arena: Arena) -> Stage:
    if has_ended(arena.load(layout.JOB_CREATOR), arena.load(layout.JOB_CREATOR_START)):
        return Stage.WITHDRAWN
    state = records.read(arena, 0, layout.BY_RANK).state
    if state != records.JOINED:
        return Stage.CLAIMED if state == records.UNBORN else Stage.WITHDRAWN
    is_closed = records.read(arena, 0, layout.BY_LAUNCHER).state == records.JOINED
    return Stage.CLOSED if is_closed else Stage.OPEN


# --- rank 0 -----------------------------------------------------------------------------------------------------------


def _lead(key: str, size: int, wait_timeout: float, end: float, look: Callable[[], None]) -> Arena:
    name = arena_names.new(key)
    arena = None
    try:
        _refuse_rivals(key, name)  # removes left-overs, too: there may be no memory beside them
        try:
            with refusals.in_words():
                arena = arenas.create(size, timeout=wait_timeout, name=name, nonce=arena_names.nonce_of(name))
                with _lock(arena.fd):  # a lock that is refused is found here, and not by the other ranks
                    pass
        except (ShmcollError, ValueError) as error:
            rendezvous_errors.tell(key, size, error, end)
            raise
        _open(arena, name, key, end)
        _gather(arena, name, key, end, look)
    except BaseException:
        if arena is not None:
            _give_up(arena, 0)
            arena.close()
        raise
    finally:
        arena_names.remove(name)
    return arena


def _open(arena: Arena, name: str, key: str, end: float) -> None:
    """Let ranks register in the arena as soon as no other process claims to be rank 0."""
    while True:
        begun = time.monotonic()
        if not _refuse_rivals(key, name):
            records.write(arena, 0, layout.BY_RANK, records.JOINED, pid=os.getpid())
            return
        if time.monotonic() > end:
            raise _started_twice(key)
        _pause(begun, end)


def _refuse_rivals(key: str, name: str) -> bool:
    """Return whether another process claims to be rank 0 and has to withdraw. Remove all left-overs of the user.

    Raises `ArenaError` if this process has to withdraw.
    """
    claimed = False
    job = arena_names.of_job(key)
    for other, fd in arena_names.living(arena_names.every_job()):
        if other.startswith(job) and other != name:
            stage = _stage_behind(fd)
            if stage is Stage.OPEN or (stage is Stage.CLAIMED and other < name):
                raise _started_twice(key)
            claimed |= stage is Stage.CLAIMED
    return claimed


def _stage_behind(fd: int) -> Stage:
    arena = _attach(fd)
    try:
        return _stage(arena)
    finally:
        arena.close()


def _started_twice(key: str) -> ArenaError:
    return ArenaError(
        f"job {key!r} is running already: its rank 0 is another living process. "
        f"Give this one another name, as in shmcoll.init(job=...)"
    )


def _gather(arena: Arena, name: str, key: str, end: float, look: Callable[[], None]) -> None:
    """Wait until every rank has registered, close the arena, remove its name, and let all ranks in."""
    while not (pids := _close_if_complete(arena)):
        if time.monotonic() > end:
            missing = [rank for rank in range(1, arena.ranks) if _registered(arena, rank) is None]
            if not missing:
                raise ShmcollError(f"rank 0 of job {key!r}: a stopped process holds the lock of the arena")
            text = f"ranks {missing} of {arena.ranks} have not joined within the time given"
            raise ShmcollError(f"{text}; start all ranks, or raise SHMCOLL_JOIN_TIMEOUT")
        look()
        atomics.sleep_on(arena.doorbell(0), SLICE_NS)
    arena_names.remove(name)
    for rank, pid in pids.items():
        records.write(arena, rank, layout.BY_LAUNCHER, records.JOINED, pid=pid)
        atomics.ring(arena.doorbell(rank))


def _close_if_complete(arena: Arena) -> dict[int, int]:
    """Close the arena if a living process has registered for each rank. Returns their pids, or nothing if it stays
    open."""
    if any(_registered(arena, rank) is None for rank in range(1, arena.ranks)):
        return {}
    with _lock(arena.fd) as locked:
        pids = {rank: found.pid for rank in range(1, arena.ranks) if (found := _registered(arena, rank))}
        if not locked or len(pids) < arena.ranks - 1:
            return {}
        records.write(arena, 0, layout.BY_LAUNCHER, records.JOINED, pid=os.getpid())
    return pids


def _registered(arena: Arena, rank: int) -> records.Record | None:
    """Return the record that a living process has written when it registered for a rank."""
    found = records.read(arena, rank, layout.BY_RANK)
    return found if found.state == records.JOINED and process_start(found.pid) == found.start != 0 else None


# --- the others -------------------------------------------------------------------------------------------------------


def _find(key: str, rank: int, end: float, look: Callable[[], None]) -> Arena:
    """Wait for an open arena of the job, and return it."""
    while True:
        begun = time.monotonic()
        for _, fd in arena_names.living(arena_names.of_job(key)):
            arena = _attach(fd)
            if _stage(arena) is Stage.OPEN:
                return arena
            arena.close()
        rendezvous_errors.ask(key, rank, end)
        look()
        if time.monotonic() > end:
            raise ShmcollError(
                f"rank {rank} has not found rank 0 of job {key!r} within the time given; start all ranks, on this "
                f"machine and as the same user, or raise SHMCOLL_JOIN_TIMEOUT"
            )
        _pause(begun, end)


def _register(arena: Arena, rank: int, key: str, end: float, look: Callable[[], None] = lambda: None) -> bool:
    """Register with rank 0, and wait to be let in. Returns False if rank 0 has died, given up, or let other processes
    in."""
    try:
        if not _enter(arena, rank, key, end):
            return False
        atomics.ring(arena.doorbell(0))
        return _wait_to_be_let_in(arena, rank, key, end, look)
    except BaseException:
        if records.read(arena, rank, layout.BY_RANK).pid == os.getpid():
            _give_up(arena, rank)
        raise


def _enter(arena: Arena, rank: int, key: str, end: float) -> bool:
    """Write that this process is the rank. Returns False if the arena is not open any more."""
    while True:
        with _lock(arena.fd) as locked:
            if _stage(arena) is not Stage.OPEN:
                return False
            if locked:
                holder = _registered(arena, rank)
                if holder and holder.pid != os.getpid():
                    text = f"rank {rank} of job {key!r} is taken by process {holder.pid}; is the job started twice?"
                    raise ArenaError(text)
                records.write(arena, rank, layout.BY_RANK, records.JOINED, pid=os.getpid())
                return True
        if time.monotonic() > end:
            raise ShmcollError(f"rank {rank} of job {key!r}: a stopped process holds the lock of the arena")
        time.sleep(_PAUSE)


def _wait_to_be_let_in(arena: Arena, rank: int, key: str, end: float, look: Callable[[], None]) -> bool:
    while not _is_in(arena, rank):
        if _stage(arena) is Stage.WITHDRAWN:
            # Once more: rank 0 may have let this rank in, done its work, and ended, all since the last look
            return _is_in(arena, rank)
        if time.monotonic() > end:
            raise ShmcollError(f"rank 0 of job {key!r} lives but has not let rank {rank} in")
        try:
            look()
        except BaseException:
            if _is_in(arena, rank):  # what it saw came after that
                return True
            raise
        atomics.sleep_on(arena.doorbell(rank), SLICE_NS)
    return True


def _is_in(arena: Arena, rank: int) -> bool:
    return records.read(arena, rank, layout.BY_LAUNCHER).pid == os.getpid()


def _give_up(arena: Arena, rank: int) -> None:
    """Record that this rank does not go on. Ranks that are in already raise `RankFailed`."""
    text = f"rank {rank} gave up while the ranks of the job were meeting"
    records.write(arena, rank, layout.BY_RANK, records.FAILED, records.EXITED, 1, text, pid=os.getpid())


@contextlib.contextmanager
def _lock(fd: int) -> Iterator[bool]:
    """Try to take the file lock of the arena, without waiting. The value is whether this process has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _pause(begun: float, end: float) -> None:
    """Wait before the next listing, where the last one has begun at `begun`."""
    now = time.monotonic()
    time.sleep(min(max(_PAUSE, 4 * (now - begun)), max(_PAUSE, end - now)))
