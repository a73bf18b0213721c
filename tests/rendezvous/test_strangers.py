"""Another user cannot keep ranks from meeting by what has our prefix; who has the very name of a job is said."""

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shmcoll.engine.memory import arena as arenas
from shmcoll.errors import ArenaError, ShmcollError
from shmcoll.startup import rendezvous
from tests.support.users import as_them, needs_two_users, start_as_them

pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[str]"]

WHO = ["rank 0 of 2 by explicit\n", "rank 1 of 2 by explicit\n"]


def path_of(job: str) -> Path:
    return Path("/dev/shm") / rendezvous.name_of(f"explicit:{job}").lstrip("/")


@pytest.fixture
def theirs() -> Iterator[Callable[[Path], Path]]:
    """Names that are removed at the end, whoever has them."""
    names: list[Path] = []

    def note(path: Path) -> Path:
        names.append(path)
        return path

    yield note
    for path in names:
        path.unlink(missing_ok=True)


@needs_two_users
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_lock_of_another_user(start: Start, theirs, mode: int) -> None:
    """The attack: a file with our prefix, and its lock held for ever."""
    path = theirs(path_of("trap"))

    def hold() -> None:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        os.fchmod(fd, mode)
        fcntl.flock(fd, fcntl.LOCK_EX)

    end = start_as_them(hold)
    try:
        processes = [start(rank, 2, "free", SHMCOLL_JOIN_TIMEOUT="20") for rank in (0, 1)]
        assert [process.communicate(timeout=50)[0] for process in processes] == WHO
        assert path.exists()
    finally:
        end()


@needs_two_users
@pytest.mark.parametrize("kind", ["file", "unreadable", "fifo", "link"])
def test_the_name_of_a_job_that_another_user_has(start: Start, theirs, kind: str) -> None:
    path = theirs(path_of("squatted"))

    def squat() -> None:
        if kind == "fifo":
            os.mkfifo(path, 0o666)
        elif kind == "link":
            path.symlink_to("/dev/zero")
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600 if kind == "unreadable" else 0o666))

    as_them(squat)
    for process in [start(rank, 2, "squatted") for rank in (0, 1)]:
        line = process.communicate(timeout=50)[1].splitlines()[-1]
        assert f"ArenaError: {path}, under which the ranks of job 'explicit:squatted' meet, belongs to uid" in line
        assert "belongs to uid 41002, not to uid 0: that user keeps the job from starting. Have the file " in line


def test_a_left_over_whose_lock_is_held_is_left_alone(start: Start, theirs) -> None:
    """A process of ours that holds it may be stopped."""
    path = theirs(path_of("another"))
    path.touch(mode=0o600)
    os.utime(path, (0, 0))
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        processes = [start(rank, 2, "free") for rank in (0, 1)]
        assert [process.communicate(timeout=50)[0] for process in processes] == WHO
        assert path.exists()
    processes = [start(rank, 2, "free") for rank in (0, 1)]
    assert [process.communicate(timeout=50)[0] for process in processes] == WHO
    assert not path.exists()


def test_a_lock_on_the_name_of_this_job_has_a_deadline(theirs) -> None:
    path = theirs(path_of("stuck"))
    path.touch(mode=0o600)
    os.utime(path, (0, 0))
    name, key = f"/{path.name}", "explicit:stuck"
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ArenaError, match=f"{path}, under which job '{key}' meets, is locked by a process that"):
            rendezvous._create(name, key, 2, 1.0, time.monotonic() + 0.2)


def test_the_lock_for_registering_has_a_deadline(theirs) -> None:
    path = theirs(path_of("registering"))
    made = arenas.create(2, timeout=1, name=f"/{path.name}")
    arena = arenas.open_named(f"/{path.name}")
    assert arena is not None
    fcntl.flock(made.fd, fcntl.LOCK_EX)
    with pytest.raises(ShmcollError, match="rank 1 of job 'key': a process that does not go on holds the lock"):
        rendezvous._register(arena, 1, "key", time.monotonic() + 0.2)
    made.close()
    arena.close()


@needs_two_users
def test_a_listener_that_takes_no_call_keeps_nobody(start: Start) -> None:
    """Rank 1 asks at an address without a file whether rank 0 has failed. Another user listens there, and does no more:
    a connection to it would be waited for until the deadline."""
    address = b"\0" + path_of("deaf").name.encode()
    sockets: list[socket.socket] = []

    def listen() -> None:
        sockets.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        sockets[0].bind(address)
        sockets[0].listen(0)
        dispatcher = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        dispatcher.connect(address)  # which fills its queue
        sockets.append(dispatcher)

    end = start_as_them(listen)
    try:
        first = start(1, 2, "deaf", SHMCOLL_JOIN_TIMEOUT="20")
        time.sleep(0.5)
        processes = [start(0, 2, "deaf", SHMCOLL_JOIN_TIMEOUT="20"), first]
        assert [process.communicate(timeout=50)[0] for process in processes] == WHO
    finally:
        end()


def test_a_stopped_process_that_registers_is_not_waited_for(start: Start, theirs) -> None:
    """Both claim to be rank 1; one is stopped while it holds the lock: the other says so at its deadline."""
    path = theirs(path_of("stopped"))
    rank_0 = start(0, 2, "stopped", SHMCOLL_JOIN_TIMEOUT="20")
    while not path.exists():
        time.sleep(0.002)
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    _, err = start(1, 2, "stopped", SHMCOLL_JOIN_TIMEOUT="0.5").communicate(timeout=50)
    os.close(fd)
    assert "rank 1 of job 'explicit:stopped': a process that does not go on holds the lock" in err.splitlines()[-1]
    rank_0.send_signal(signal.SIGKILL)
    rank_0.communicate()
