"""Another user cannot keep ranks from meeting, whatever they put into /dev/shm and wherever they listen."""

import fcntl
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.errors import ShmcollError
from shmcoll.startup import arena_names, rendezvous
from shmcoll.startup.launchers import find_placement
from tests.support.named_arenas import files_of, is_open
from tests.support.patience import PATIENCE
from tests.support.users import needs_two_users, start_as_them
from tests.support.waiting import until

pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[str]"]
Attack = Callable[[str], None]  # with the beginning of the paths of a job's arenas

JOB = f"attacked-{os.getpid()}"
MANY = 300
OPEN: list[socket.socket] = []  # of the attacker


def torchrun(rank: int) -> dict[str, str]:
    """What torchrun sets for one of two ranks."""
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    job = {"TORCHELASTIC_RUN_ID": JOB, "TORCHELASTIC_RESTART_COUNT": "0"}
    return {**place, **job, "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


def paths_begin(key: str) -> str:
    return str(arena_names.FOLDER / arena_names.of_job(key))


class Job:
    """A job of two ranks that know their place by `init(job=...)`, or by the variables of torchrun."""

    def __init__(self, start: Start, way: str):
        self._start = start
        self._is_explicit = way == "init"
        place = None if self._is_explicit else find_placement(torchrun(0))
        self.key = place.key if place else f"explicit:{JOB}"
        self.launcher = place.launcher if place else "explicit"

    def start_rank(self, rank: int) -> "subprocess.Popen[str]":
        limit = {"SHMCOLL_JOIN_TIMEOUT": "20"}
        return self._start(rank, 2, JOB, **limit) if self._is_explicit else self._start(**torchrun(rank), **limit)

    def run(self, order: tuple[int, ...] = (0, 1)) -> None:
        """Run the job. All files that belong to it have the same owner as before: it has left none."""
        before = files_of(self.key)
        processes = {rank: self.start_rank(rank) for rank in order}
        ended = {rank: process.communicate(timeout=PATIENCE) for rank, process in processes.items()}
        assert ended == {rank: (f"rank {rank} of 2 by {self.launcher}\n", "") for rank in order}
        assert files_of(self.key) == before


@pytest.fixture(params=["init", pytest.param("torchrun", marks=pytest.mark.stress)])
def job(request: pytest.FixtureRequest, start: Start) -> Iterator[Job]:
    job = Job(start, request.param)
    yield job
    for path in arena_names.FOLDER.glob(f"{arena_names.of_job(job.key)[:-1]}*"):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def names(start: str) -> list[str]:
    """Paths that an attacker may choose: what a job's names begin with, as a whole, and with other ends."""
    return [start[:-1], start, *(f"{start}{one}" for one in ("0", "0" * 32, "f" * 32, "x" * 32, "." * 32))]


def files_with_locks(start: str) -> None:
    """Files of each mode, among them the one name that a job had in the past, all locked."""
    for path in names(start):
        for mode in (0o600, 0o666):
            file_with_lock(f"{path}{'-' * (mode == 0o666)}", mode)


def file_with_lock(path: str, mode: int = 0o666) -> None:
    fd = os.open(path, os.O_CREAT | os.O_RDWR, mode)
    os.fchmod(fd, mode)
    fcntl.flock(fd, fcntl.LOCK_EX)


def fifos(start: str) -> None:
    for path in names(start):
        os.mkfifo(path, 0o666)


def links(start: str) -> None:
    """To a device, to nothing, and to a file of the victim."""
    for path, target in zip(names(start), ("/dev/zero", "/nothing", "/etc/passwd", "/dev/tty"), strict=False):
        Path(path).symlink_to(target)


def folders(start: str) -> None:
    for path in names(start):
        Path(path).mkdir()


def copies_of_arenas(start: str) -> None:
    """Arenas whose rank 0 is the attacker: they are open, and let everybody in."""
    own = start.rpartition("/")[2] + secrets.token_hex(16)
    arena = arenas.create(2, timeout=1, heap=1 << 20, name=own, nonce=arena_names.nonce_of(own))
    records.write(arena, 0, layout.BY_RANK, records.JOINED, pid=os.getpid())
    records.write(arena, 1, layout.BY_RANK, records.JOINED, pid=os.getpid())
    os.fchmod(arena.fd, 0o666)


def hundreds_of_files(start: str) -> None:
    for number in range(1, MANY + 1):
        os.close(os.open(f"{start}{number:032x}", os.O_CREAT | os.O_RDWR, 0o666))


def listeners(start: str) -> None:
    """At addresses where rank 0 may report errors: one that accepts no connection, others whose queues are full."""
    for end in ("", "0" * 32, "\n" * 32, *(f"{number:032x}" for number in range(1, 100))):
        address = f"\0{start.rpartition('/')[2]}{end}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(address)
        listener.listen(0)
        caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        caller.connect(address)
        OPEN.extend((listener, caller))


def all_at_once(start: str) -> None:
    """The names are of all kinds in turn."""
    kinds = cycle((os.mkfifo, os.mkdir, lambda path: Path(path).symlink_to("/dev/zero"), file_with_lock))
    for path, make in zip(names(start), kinds, strict=False):
        make(path)
    for attack in (copies_of_arenas, hundreds_of_files, listeners):
        attack(start)


ALONE = (files_with_locks, fifos, links, folders, copies_of_arenas, hundreds_of_files, listeners)


@needs_two_users
@pytest.mark.parametrize("attack", [all_at_once, *(pytest.param(one, marks=pytest.mark.stress) for one in ALONE)])
def test_a_job_starts_whatever_another_user_has_put_in_its_way(job: Job, attack: Attack) -> None:
    end = start_as_them(attack, paths_begin(job.key))
    try:
        job.run()
    finally:
        end()


@needs_two_users
def test_a_rank_that_waits_does_not_mind_what_another_user_puts_in_its_way(job: Job) -> None:
    """Rank 1 is looking for its rank 0 as the attack begins; another user comes and goes all the time."""
    first = job.start_rank(1)
    start = paths_begin(job.key)

    def come_and_go() -> None:
        files_with_locks(start)
        listeners(start)
        attacker = os.getpid()
        if os.fork() == 0:
            while os.getppid() == attacker:  # not `!= 1`: a subreaper may take over from the attacker
                path = f"{start}{secrets.token_hex(16)}"
                os.mkfifo(path, 0o666)
                Path(path).unlink()
            os._exit(0)

    end = start_as_them(come_and_go)
    try:
        rank_0 = job.start_rank(0)
        assert [process.communicate(timeout=PATIENCE)[0] for process in (rank_0, first)] == [
            f"rank {rank} of 2 by {job.launcher}\n" for rank in (0, 1)
        ]
    finally:
        end()


@needs_two_users
def test_an_error_of_rank_0_arrives_whoever_listens(start: Start) -> None:
    job = Job(start, "init")
    end = start_as_them(listeners, paths_begin(job.key))
    try:
        processes = [start(rank, 2, JOB, SHMCOLL_HEAP="plenty") for rank in (0, 1)]
        for process in processes:
            assert (
                "SHMCOLL_HEAP='plenty' is not an amount of memory"
                in process.communicate(timeout=PATIENCE)[1].splitlines()[-1]
            )
    finally:
        end()


def test_a_second_name_of_the_jobs_own_arena(job: Job) -> None:
    """Another user can make hard links where fs.protected_hardlinks is 0: while the job starts, and afterwards."""
    rank_0 = job.start_rank(0)
    until(lambda: is_open(job.key))
    (path,) = files_of(job.key)
    alias = path.with_name(arena_names.new(job.key))
    alias.hardlink_to(path)
    kept = path.with_name(f"shmcoll-test-{os.getpid()}")
    kept.hardlink_to(path)
    try:
        rank_1 = job.start_rank(1)
        for process in (rank_0, rank_1):
            assert process.communicate(timeout=PATIENCE)[1] == ""
        path.hardlink_to(kept)  # the very name once more
        alias.unlink()
        rank_0, rank_1 = job.start_rank(0), job.start_rank(1)
        for process in (rank_0, rank_1):
            assert process.communicate(timeout=PATIENCE)[1] == ""
        assert not files_of(job.key)
    finally:
        kept.unlink()


def test_the_lock_for_registering_has_a_deadline(start: Start) -> None:
    """A process of the user that holds it may be stopped. Rank 0 says so, too, when all have registered."""
    job = Job(start, "init")
    name = arena_names.new(job.key)
    made = arenas.create(2, timeout=1, name=name, nonce=arena_names.nonce_of(name))
    records.write(made, 0, layout.BY_RANK, records.JOINED, pid=os.getpid())
    ((_, fd),) = ((name, os.dup(fd)) for name, fd in arena_names.living(arena_names.of_job(job.key)))
    arena = arenas.attach(fd, None)
    fcntl.flock(made.fd, fcntl.LOCK_EX)
    with pytest.raises(ShmcollError, match="rank 1 of job 'key': a stopped process holds the lock of the arena"):
        rendezvous._register(arena, 1, "key", time.monotonic() + 0.2)
    fcntl.flock(made.fd, fcntl.LOCK_UN)
    records.write(arena, 1, layout.BY_RANK, records.JOINED, pid=os.getpid())
    fcntl.flock(arena.fd, fcntl.LOCK_EX)
    with pytest.raises(ShmcollError, match="rank 0 of job 'key': a stopped process holds the lock of the arena"):
        rendezvous._gather(made, name, "key", time.monotonic() + 0.2, lambda: None)
    arena_names.remove(name)
    made.close()
    arena.close()


def test_a_stopped_process_that_registers_is_not_waited_for(start: Start) -> None:
    """Both claim to be rank 1; one is stopped while it holds the lock: the other says so at its deadline."""
    key = "explicit:stopped"
    rank_0 = start(0, 2, "stopped", SHMCOLL_JOIN_TIMEOUT="20")
    until(lambda: is_open(key))
    with open(os.open(files_of(key)[0], os.O_RDWR)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _, err = start(1, 2, "stopped", SHMCOLL_JOIN_TIMEOUT="0.5").communicate(timeout=PATIENCE)
    assert "rank 1 of job 'explicit:stopped': a stopped process holds the lock" in err.splitlines()[-1]
    rank_0.send_signal(signal.SIGKILL)
    rank_0.communicate()
    files_of(key)[0].unlink()
