"""The order in which plain Python writes and reads shared words: what is a fence, and where there is one."""

import ctypes
from collections.abc import Callable, Iterator

import pytest

from shmcoll.engine import fences, layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.heap import Heap


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = arenas.create(2, timeout=1.0, heap=1 << 20)
    yield made
    made.close()


@pytest.fixture
def order(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens, one after the other: loads and stores of words of the arena, and fences between them."""
    happened: list[str] = []

    def noted(name: str, method: Callable[..., object]) -> Callable[..., object]:
        def call(offset: int, *value: int) -> object:
            happened.append(f"{name} {offset}")
            return method(offset, *value)

        return call

    def load_each(first: int, stride: int, count: int) -> list[int]:
        happened.extend(f"load {first + i * stride}" for i in range(count))
        return method(first, stride, count)

    method = arena.load_each
    monkeypatch.setattr(arena, "load_each", load_each)
    for name in ("load", "store"):
        monkeypatch.setattr(arena, name, noted(name, getattr(arena, name)))
    for name in ("fence", "acquire", "release"):
        monkeypatch.setattr(fences, name, lambda name=name: happened.append(name))
    return happened


def test_loads_acquire_and_stores_release(arena: Arena, order: list[str]) -> None:
    """And so do whole ranges of bytes: of records, what is in front of the checksum."""
    arena.store(layout.JOB_CREATED, 5)
    arena.load(layout.JOB_CREATED)
    arena.write(layout.RECORDS, b"text")
    arena.read(layout.RECORDS, 4)
    arena.load_each(layout.RECORDS, layout.RECORD_BYTES, 2)
    assert order == [
        f"store {layout.JOB_CREATED}",
        "release",
        f"load {layout.JOB_CREATED}",
        "acquire",
        "release",
        "acquire",
        f"load {layout.RECORDS}",
        f"load {layout.RECORDS + layout.RECORD_BYTES}",
        "acquire",
    ]


def test_a_heap_adds_its_need_before_it_looks_at_the_others(arena: Arena, order: list[str]) -> None:
    """Else two ranks could both take the last bytes."""
    Heap(arena, 0).take(1000, "a test")
    mine, other = (layout.directory_offset(2, rank) + layout.HELD for rank in (0, 1))
    stored, looked = order.index(f"store {mine}"), order.index(f"load {other}")
    assert "fence" in order[stored:looked]


def test_a_group_has_ended_before_its_rank_goes_on(arena: Arena, order: list[str]) -> None:
    """The record of why comes first, and what the rank does afterwards is behind a fence."""
    group = Group.world(arena)
    records.end(group, 1, records.RAISED, "why")
    record = group.offset + layout.ending_offset(2, 1)
    written = order.index(f"store {record + layout.RECORD_CHECK}")
    ended = order.index(f"store {group.offset + layout.ABORT}")
    assert written < ended
    assert "release" in order[ended:]
    assert "fence" in order[ended:]


@pytest.mark.parametrize(("machine", "fenced"), [("x86_64", ["fence"]), ("aarch64", ["fence", "acquire", "release"])])
def test_which_of_them_are_fences(monkeypatch: pytest.MonkeyPatch, machine: str, fenced: list[str]) -> None:
    posts: list[int] = []

    class Libc:
        def sem_post(self, semaphore: object) -> None:
            posts.append(1)

        def sem_trywait(self, semaphore: object) -> None:
            posts.append(-1)

    monkeypatch.setattr(fences, "_LIBC", Libc())
    monkeypatch.setattr(fences, "_IS_ORDERED", machine == "x86_64")
    for name in ("fence", "acquire", "release"):
        posts.clear()
        getattr(fences, name)()
        assert posts == ([1, -1] if name in fenced else [])


def test_a_fence_takes_back_what_it_posts() -> None:
    """So the semaphore never reaches its limit, where a post would do nothing."""
    count = ctypes.c_int()
    for _ in range(1000):
        fences.fence()
    ctypes.CDLL(None).sem_getvalue(fences._SEMAPHORE, ctypes.byref(count))
    assert count.value == 0
