"""Which files in /dev/shm count as arenas of a job: those of this user, under their own names, whose creators live."""

import errno
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory.arena import Arena
from shmcoll.errors import ArenaError
from shmcoll.startup import arena_names
from tests.support.named_arenas import files_of
from tests.support.users import THEM, needs_two_users

Make = Callable[..., tuple[Path, Arena]]


@pytest.fixture
def key() -> Iterator[str]:
    key = f"names-{os.getpid()}"
    yield key
    for path in files_of(key):
        path.unlink()


@pytest.fixture
def make(key: str) -> Iterator[Make]:
    """Make an arena of the job that has a name."""
    made: list[Arena] = []

    def make_one(creator: int = 0) -> tuple[Path, Arena]:
        name = arena_names.new(key)
        nonce = arena_names.nonce_of(name)
        made.append(arenas.create(2, timeout=1, heap=1 << 20, name=name, nonce=nonce, creator=creator))
        return arena_names.FOLDER / name, made[-1]

    yield make_one
    for arena in made:
        arena.close()


def living(key: str) -> set[str]:
    return {name for name, _ in arena_names.living(arena_names.of_job(key))}


def test_arenas_of_living_creators_are_found(key: str, make: Make) -> None:
    (first, _), (second, _) = make(), make()
    assert living(key) == {first.name, second.name}
    assert living(f"{key}, another job") == set()
    arena_names.remove(first.name)
    arena_names.remove(first.name)
    assert living(key) == {second.name}


def test_the_descriptor_is_the_arenas(key: str, make: Make) -> None:
    path, arena = make()
    for _, fd in arena_names.living(arena_names.of_job(key)):
        assert os.path.samestat(os.fstat(fd), path.stat())
        assert os.pread(fd, 16, layout.JOB_NONCE).hex() == arena.nonce


def test_the_name_of_a_dead_creator_is_removed(key: str, make: Make) -> None:
    creator = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    path, _ = make(creator=creator.pid)
    assert living(key) == {path.name}
    creator.kill()
    creator.communicate()
    assert living(key) == set()
    assert not path.exists()


def test_a_left_over_of_another_release_is_removed(key: str, make: Make) -> None:
    creator = subprocess.Popen(["true"])
    path, arena = make(creator=creator.pid)
    arena.store(layout.JOB_VERSION, layout.VERSION + 1)
    creator.wait()
    assert living(key) == set()
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o604, 0o660, 0o666])
def test_what_others_may_open_does_not_count(key: str, make: Make, mode: int) -> None:
    path, _ = make()
    path.chmod(mode)
    assert living(key) == set()
    assert path.exists()


@needs_two_users
def test_a_file_of_another_user_does_not_count(key: str, make: Make) -> None:
    """Nor is it removed, although its creator seems to be dead."""
    path, arena = make()
    arena.store(layout.JOB_CREATOR, 0)
    os.chown(path, THEM, THEM)
    assert living(key) == set()
    assert path.exists()


def test_a_second_name_of_an_arena_does_not_count(key: str, make: Make) -> None:
    """Another user can make one where fs.protected_hardlinks is 0: within the job, or in another one."""
    path, _ = make()
    (arena_names.FOLDER / arena_names.new(key)).hardlink_to(path)
    other = f"{key}, another job"
    alias = arena_names.FOLDER / f"{arena_names.of_job(other)}{path.name.rpartition('.')[2]}"
    alias.hardlink_to(path)
    try:
        assert living(key) == {path.name}
        assert living(other) == set()
    finally:
        alias.unlink()


@pytest.mark.parametrize("kind", ["empty", "fifo", "link", "link to an arena", "folder"])
def test_what_is_not_an_arena_does_not_count(key: str, make: Make, kind: str) -> None:
    path = arena_names.FOLDER / arena_names.new(key)
    found = set()
    if kind == "empty":
        path.touch(mode=0o600)
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.mkdir(mode=0o700)
    else:
        target = Path("/dev/zero")
        if kind == "link to an arena":
            target, _ = make()
            found = {target.name}
        path.symlink_to(target)
    try:
        assert living(key) == found
    finally:
        path.rmdir() if kind == "folder" else path.unlink()


def test_random_files_do_not_count(key: str, seed: int) -> None:
    draw = random.Random(seed)
    path = arena_names.FOLDER / arena_names.new(key)
    for _ in range(200):
        path.write_bytes(draw.randbytes(draw.choice((0, 1, 7, 8, 47, 100, 4096, 1 << 16, 1 << 20))))
        path.chmod(0o600)
        assert living(key) == set()


@pytest.mark.parametrize("kind", ["nothing", "fifo", "folder", "link", "socket"])
def test_a_name_that_means_another_file_by_the_time_it_is_opened(
    key: str, make: Make, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its rank 0 has removed it, and another user has made something of the same name: nobody waits for that."""
    path, _ = make()
    real = os.open
    listener = socket.socket(socket.AF_UNIX)

    def open_later(name: object, flags: int, *more: int, **options: int) -> int:
        if name == path:
            path.unlink()
            if kind == "fifo":
                os.mkfifo(path, 0o600)
            elif kind == "folder":
                path.mkdir()
            elif kind == "link":
                path.symlink_to("/dev/zero")
            elif kind == "socket":
                listener.bind(str(path))
        return real(name, flags, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", open_later)
    assert living(key) == set()
    listener.close()
    if kind == "folder":
        arena_names.remove(path.name)
        path.rmdir()


def test_without_descriptors_nothing_is_overlooked(key: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank 0 that cannot open the arena of another one must not think that it is the only one."""
    path, _ = make()

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ArenaError, match=f"cannot open {path}: Too many open files"):
        living(key)


def test_a_folder_that_cannot_be_listed(key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(arena_names, "FOLDER", tmp_path / "file")
    with pytest.raises(ArenaError, match=r"cannot list .*/file, where ranks find the arena of their job: Not a dir"):
        living(key)
    monkeypatch.setattr(arena_names, "FOLDER", tmp_path / "missing")
    assert living(key) == set()
