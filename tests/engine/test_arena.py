"""The arena: made without a name, committed before use, and refused when it is not what it should be."""

import contextlib
import errno
import fcntl
import mmap
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import available_memory
from shmcoll.engine.memory.arena import Arena, attach
from shmcoll.errors import ArenaError
from tests.support.ranks import close


@contextlib.contextmanager
def created(ranks: int = 2, **options) -> Iterator[Arena]:
    arena = arenas.create(ranks, timeout=1.5, **options)
    try:
        yield arena
    finally:
        close(arena)


def refusal(fd: int, nonce: str) -> str:
    with pytest.raises(ArenaError) as told:
        attach(fd, nonce)
    return str(told.value)


def test_an_attached_arena_is_the_created_one():
    with created(3) as arena:
        other = attach(arena.fd, arena.nonce)
        assert (other.ranks, other.size, other.world) == (3, arena.size, arena.world)
        assert other.address != arena.address
        other.store(other.world, 1)
        assert arena.load(arena.world) == 1
        assert other.load(layout.JOB_TIMEOUT) == 1_500_000_000
        assert other.load(layout.JOB_CREATOR) == os.getpid()


def test_nonces_differ():
    with created() as a, created() as b:
        assert a.nonce != b.nonce
        assert refusal(a.fd, b.nonce) == (
            "the arena's nonce is not the one this rank was given: it belongs to another job"
        )


def test_it_has_no_name_and_only_its_owner_may_open_it():
    with created() as arena:
        assert os.fstat(arena.fd).st_nlink == 0
        assert os.fstat(arena.fd).st_mode & 0o777 == 0o600
        assert not os.get_inheritable(arena.fd)


def test_all_that_a_job_needs_is_committed_at_once_and_no_more():
    for ranks in (1, 2, 8):
        with created(ranks) as arena:
            taken = os.fstat(arena.fd).st_blocks * 512
            assert layout.arena_bytes(ranks, arena.load(layout.JOB_WINDOW_BYTES)) <= taken < 48 << 20
            assert arena.size > taken


def test_thresholds_come_from_the_creators_environment(monkeypatch):
    monkeypatch.setenv("SHMCOLL_FLAT_BYTES", "1000")
    monkeypatch.setenv("SHMCOLL_SLICE_BYTES", str(1 << 30))
    with created(cell_bytes=4096) as arena:
        assert arena.load(layout.JOB_FLAT_BYTES) == 1024
        assert arena.load(layout.JOB_SLICE_BYTES) == 4096


@pytest.mark.parametrize(("given", "bytes_"), [("64K", 65536), ("1.5 KiB", 1536), ("1T", 1 << 40)])
def test_a_threshold_may_have_a_unit(monkeypatch, given, bytes_):
    monkeypatch.setenv("SHMCOLL_STREAM_BYTES", given)
    with created() as arena:
        assert arena.load(layout.JOB_STREAM_BYTES) == bytes_


@pytest.mark.parametrize("value", ["0", "-5", "much", "2T", "9" * 30, "9" * 400])
def test_a_threshold_that_is_no_number_is_refused(monkeypatch, value):
    monkeypatch.setenv("SHMCOLL_FLAT_BYTES", value)
    with pytest.raises(ValueError, match=f"SHMCOLL_FLAT_BYTES='{value}' is not an amount of memory up to 1T; give one"):
        arenas.create(1, timeout=1)


def test_too_little_memory_is_said_in_numbers():
    with pytest.raises(ArenaError) as told:
        arenas.create(4, timeout=1, cell_bytes=1 << 40)
    assert "too little shared memory for the arena of 4 ranks: 8,388,608." in str(told.value)
    assert " MiB needed, " in str(told.value)
    assert " in use. Start fewer ranks, or end other programs." in str(told.value)


def test_a_commit_that_does_not_fit_takes_nothing():
    with created() as arena:
        before = os.fstat(arena.fd).st_blocks
        with pytest.raises(ArenaError, match=r"for a test: 1,073,741,824\.0 MiB needed, [\d,.]+ MiB available"):
            arena.commit(1 << 30, 1 << 50, "a test")
        assert os.fstat(arena.fd).st_blocks == before
        arena.commit(1 << 30, 1 << 20, "a test")
        arena.store((1 << 30) + 8, 5)


def test_the_least_of_all_limits_counts(monkeypatch):
    with created() as arena:
        free = available_memory.available(arena.fd)
        monkeypatch.setattr(available_memory, "_memory_room", lambda: available_memory.Room(5 << 20))
        assert available_memory.available(arena.fd) == min(free, 5 << 20)
        monkeypatch.setattr(available_memory, "_cgroup_rooms", lambda: [available_memory.Room(3 << 20)])
        with pytest.raises(ArenaError, match=r"4\.0 MiB needed, 3\.0 MiB available"):
            arena.commit(1 << 30, 4 << 20, "a test")


def test_where_the_address_space_is_limited_the_mapping_is_smaller():
    source = """
        import resource
        from shmcoll.engine.memory import arena
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        made = arena.create(2, timeout=1)
        print(made.size)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 8 << 30))
        try:
            arena.create(2, timeout=1)
        except arena.ArenaError as e:
            print(e)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=True)
    size, error = done.stdout.splitlines()
    assert 1 << 30 <= int(size) <= 8 << 30
    assert "cannot map" in error
    assert "ulimit -v" in error


def test_the_size_of_an_arena_is_sealed():
    with created() as arena:
        for size in (arena.size - 4096, arena.size + 4096):
            with pytest.raises(PermissionError):
                os.ftruncate(arena.fd, size)
        with pytest.raises(PermissionError):
            fcntl.fcntl(arena.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        arena.commit(1 << 30, 1 << 20, "a test")
        arena.store(1 << 30, 5)
        arena.clear(1 << 30, 1 << 20)
        assert arena.load(1 << 30) == 0


def test_where_no_memfd_can_be_made_dev_shm_is_used(monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refused)
    with created() as arena:
        assert str(Path(f"/proc/self/fd/{arena.fd}").readlink()).startswith("/dev/shm/#")
        assert attach(arena.fd, arena.nonce).ranks == 2


# --- refused ----------------------------------------------------------------------------------------------------------


def test_a_descriptor_that_is_not_open():
    fd = os.dup(0)
    os.close(fd)
    assert f"the arena's descriptor {fd} is not open in this process" in refusal(fd, "")


def test_a_descriptor_of_something_else(tmp_path):
    read, write = os.pipe()
    assert "expected a regular file" in refusal(read, "")
    os.close(read)
    os.close(write)
    with open(tmp_path / "file", "w+b") as file:
        os.fchmod(file.fileno(), 0o600)
        assert refusal(file.fileno(), "") == "the arena has 0 bytes, too few for its own job page"
        file.truncate(1 << 20)
        assert "is not a shmcoll arena (magic 0x0)" in refusal(file.fileno(), "")


def test_a_memfd_that_others_may_still_cut():
    with open(os.memfd_create("shmcoll", os.MFD_ALLOW_SEALING), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.truncate(1 << 20)
        assert "is not a shmcoll arena: its seals are 0x0, expected 0x7" in refusal(file.fileno(), "")


def test_a_file_that_others_may_open():
    with created() as arena:
        os.fchmod(arena.fd, 0o640)
        assert "has mode 100640; expected a regular file that only its owner can open" in refusal(arena.fd, arena.nonce)


def test_a_file_of_somebody_else(monkeypatch):
    with created() as arena:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        assert refusal(arena.fd, arena.nonce) == f"the arena belongs to uid {os.getuid()}, this rank runs as uid 4711"


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (layout.JOB_MAGIC, 0x1234, "is not a shmcoll arena (magic 0x1234)"),
        (layout.JOB_MAGIC, -1, "is not a shmcoll arena (magic 0xffffffffffffffff)"),
        (layout.JOB_VERSION, layout.VERSION + 1, "the launcher and the ranks use different releases of shmcoll"),
        (layout.JOB_BYTES, 4096, "the arena says it has 4096 bytes but has"),
        (layout.JOB_RANKS, 0, "the arena's job page is damaged: 0 ranks"),
        (layout.JOB_RANKS, -7, "the arena's job page is damaged: -7 ranks"),
        (layout.JOB_RANKS, 1 << 40, "the arena's job page is damaged"),
        (layout.JOB_CELL_BYTES, 0, "cells of 0 bytes"),
        (layout.JOB_CELL_BYTES, 1 << 62, "the arena's job page is damaged"),
        (layout.JOB_WINDOW_BYTES, 0, "the arena's job page is damaged"),
        (layout.JOB_WINDOW_BYTES, layout.CELL_BYTES - layout.LINE, "the arena's job page is damaged"),
        (layout.JOB_WINDOW_BYTES, layout.CELL_BYTES + 8, "the arena's job page is damaged"),
        (layout.JOB_WINDOW_BYTES, 1 << 62, "the arena's job page is damaged"),
    ],
)
def test_a_damaged_job_page(offset, value, words):
    with created() as arena:
        nonce = arena.nonce
        arena.store(offset, value)
        assert words in refusal(arena.fd, nonce)


def test_random_job_pages_are_refused_and_crash_nobody(seed):
    random_ = random.Random(seed)
    with created() as arena:
        nonce, page = arena.nonce, arena.read(0, layout.PAGE)
        checked = (layout.JOB_MAGIC, layout.JOB_VERSION, layout.JOB_BYTES, layout.JOB_NONCE)
        for _ in range(300):
            arena.write(0, random_.randbytes(layout.PAGE))
            refusal(arena.fd, nonce)
            arena.write(0, page)
            arena.store(random_.choice(checked), random_.getrandbits(63))
            refusal(arena.fd, nonce)
            arena.write(0, page)
        assert attach(arena.fd, nonce).ranks == 2


def test_a_truncated_file_is_refused():
    fd = os.memfd_create("cut")
    os.fchmod(fd, 0o600)
    os.ftruncate(fd, 4096)
    assert "too few for its own job page" in refusal(fd, "")
    os.ftruncate(fd, 1 << 20)
    with mmap.mmap(fd, 1 << 20) as memory, created() as arena:
        memory[: layout.PAGE] = arena.read(0, layout.PAGE)
        assert f"the arena says it has {arena.size} bytes but has 1048576" in refusal(fd, arena.nonce)
    os.close(fd)


def test_descriptors_do_not_grow():
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(50):
        with created() as arena:
            attach(arena.fd, arena.nonce)
    assert len([*Path("/proc/self/fd").iterdir()]) == before
