"""`shmcoll.shared`: an array that the caller and its ranks map."""

import gc
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.runner import shared_memory
from shmcoll.runner.shared_memory import region_of

METHODS = ("fork", pytest.param("spawn", marks=pytest.mark.slow))


@pytest.mark.parametrize("method", METHODS)
def test_what_ranks_write_the_caller_finds(method: str) -> None:
    x = shmcoll.shared(np.zeros((3, 4)))

    def fill(x: np.ndarray) -> None:
        comm = shmcoll.init()
        x[comm.rank] = comm.rank + 1
        comm.barrier()
        assert x.sum() == 24

    shmcoll.run(fill, 3, x, method=method)
    assert x.tolist() == [[1.0] * 4, [2.0] * 4, [3.0] * 4]


def test_what_the_caller_writes_between_calls_ranks_find() -> None:
    x = shmcoll.shared(np.zeros(3))
    with shmcoll.ranks(2) as r:
        for value in (1.0, 2.0):
            x[:] = value
            assert r.run(lambda x: float(x.sum()), x) == [3 * value] * 2


def test_it_may_be_a_global_or_in_a_closure() -> None:
    x = shmcoll.shared(np.zeros(2))

    def write() -> None:
        x[shmcoll.init().rank] = 7

    shmcoll.run(write, 2)
    assert x.tolist() == [7, 7]


VIEWS: dict[str, Any] = {
    "slice": lambda x: x[1:, ::2],
    "transposed": lambda x: x.T,
    "backwards": lambda x: x[::-1, ::-1],
    "scalar": lambda x: x[1, 2, ...],
    "reshaped": lambda x: x.reshape(-1),
    "other dtype": lambda x: x.view(np.int64),
    "broadcast": lambda x: np.broadcast_to(x[0], (5, 4)),
    "read only": lambda x: _read_only(x),
    "empty": lambda x: x[3:],
}


def _read_only(x: np.ndarray) -> np.ndarray:
    view = x[:]
    view.flags.writeable = False
    return view


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_mapped_as_they_are(view: str) -> None:
    x = shmcoll.shared(np.arange(12.0).reshape(3, 4))
    part = VIEWS[view](x)

    def look(part: np.ndarray, x: np.ndarray) -> tuple:
        found = part.copy(), part.shape, part.strides, str(part.dtype), part.flags.writeable
        x[:] = -1  # seen through the view
        return *found, bool((part == -1.0).all()) if part.dtype == x.dtype else True

    [(copy, *rest)] = shmcoll.run(look, 1, part, shmcoll.shared(x))
    assert rest[:2] == [part.shape, part.strides] or part.size == 0
    assert rest[2:] == [str(part.dtype), part.flags.writeable, True]
    assert np.array_equal(copy, VIEWS[view](np.arange(12.0).reshape(3, 4)))
    assert (x == -1).all()


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "c16", "U3", "S5", "M8[s]", "i4,f8"])
def test_dtypes(dtype: str) -> None:
    x = np.zeros(3, dtype)
    y = shmcoll.shared(x)
    assert (y.dtype, y.shape, type(y)) == (x.dtype, x.shape, np.ndarray)
    [z] = shmcoll.run(lambda y: y.copy(), 1, y)
    assert (z.dtype, z.tolist()) == (x.dtype, x.tolist())


def test_shapes_and_orders() -> None:
    for x in (np.float64(3), np.zeros((2, 0, 3)), np.asfortranarray(np.arange(6).reshape(2, 3)), [1, 2, 3]):
        y = shmcoll.shared(x)
        assert np.array_equal(y, x)
        assert y.shape == np.shape(x)
    assert shmcoll.shared(np.asfortranarray(np.ones((2, 3)))).flags.f_contiguous


def test_a_shared_array_is_returned_as_it_is_and_results_of_arithmetic_are_not_shared() -> None:
    x = shmcoll.shared(np.ones(3))
    assert shmcoll.shared(x) is x
    assert region_of(x[1:]) is region_of(x)
    assert region_of(x + 1) is None
    assert region_of(np.ones(3)) is None


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("dtype object holds Python objects", np.array([None])),
        ("holds Python objects", np.zeros(2, [("a", "O")])),
        ("the array is masked", np.ma.masked_array([1, 2], [True, False])),
    ],
)
def test_what_cannot_be_shared(text: str, array: np.ndarray) -> None:
    with pytest.raises(TypeError, match=text):
        shmcoll.shared(array)


def test_it_comes_back_and_is_pickled_elsewhere_by_value() -> None:
    x = shmcoll.shared(np.ones(3))
    [y] = shmcoll.run(lambda x: x, 1, x)
    copy = pickle.loads(pickle.dumps(x))
    x[:] = 2
    assert y.tolist() == copy.tolist() == [1, 1, 1]


@pytest.mark.slow
def test_its_memory_is_freed_with_the_last_array() -> None:
    def regions() -> int:
        return sum("shmcoll-shared" in str(os.readlink(link)) for link in _links())  # noqa: PTH115

    before = regions()
    x = shmcoll.shared(np.ones(1 << 20))
    part = x[5:]
    with shmcoll.ranks(1) as r:
        assert r.run(lambda x: float(x[0]), x) == [1.0]
        assert r.run(lambda: (gc.collect() and regions_here()) or regions_here()) == [0]
        del x
        gc.collect()
        assert part.sum() == (1 << 20) - 5
        assert regions() > before
        del part
        gc.collect()
        assert regions() == before


def _links() -> list[Path]:
    return [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]


def regions_here() -> int:
    """In a rank: how many shared arrays it has mapped."""
    return Path("/proc/self/maps").read_text().count("shmcoll-shared")


@pytest.mark.slow
def test_a_rank_may_keep_it() -> None:
    def keep(x: np.ndarray) -> None:
        global kept
        kept = x

    def add() -> int:
        kept[shmcoll.init().rank] += 1
        return regions_here()

    x = shmcoll.shared(np.zeros(2))
    with shmcoll.ranks(2) as r:
        r.run(keep, x)
        assert r.run(add) == [1, 1]
        r.run(add)
        assert x.tolist() == [2, 2]


def test_too_many_for_one_call() -> None:
    many = [shmcoll.shared(np.zeros(1)) for _ in range(201)]
    with pytest.raises(TypeError, match="a call takes at most 200 shared arrays; put several into one array"):
        shmcoll.run(len, 1, many)
    assert shmcoll.run(len, 1, many[:200]) == [200]


def test_too_little_memory() -> None:
    text = r"too little shared memory for a shared array: .* needed, .* available"
    with pytest.raises(shmcoll.ArenaError, match=text) as e:
        shmcoll.shared(np.broadcast_to(np.float64(0), (1 << 30, 1 << 16)))
    assert e.value.needed == 8 << 46 > e.value.available > 0


class TestWhatArrives:
    """A rank maps a descriptor only if it is the file that the handle names, of this user, and of fixed size."""

    @pytest.fixture
    def sent(self) -> Any:
        x = shmcoll.shared(np.ones(3))
        region = region_of(x)
        assert region is not None
        yield shared_memory.handle(x, region, 0), os.dup(region.fd)

    def test_it_is_mapped(self, sent: Any) -> None:
        handle, fd = sent
        with shared_memory.received([fd]):
            assert shared_memory.array_of(handle).tolist() == [1, 1, 1]

    def test_another_file(self, sent: Any) -> None:
        handle, fd = sent
        other = os.memfd_create("other")
        os.dup2(other, fd)
        os.close(other)
        with shared_memory.received([fd]), pytest.raises(shmcoll.ArenaError, match="refers to another file"):
            shared_memory.array_of(handle)

    def test_another_user(self, sent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        handle, fd = sent
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with shared_memory.received([fd]), pytest.raises(shmcoll.ArenaError, match="belongs to uid"):
            shared_memory.array_of(handle)

    def test_a_size_that_can_change(self, sent: Any) -> None:
        handle, fd = sent
        other = os.memfd_create("other", os.MFD_ALLOW_SEALING)
        os.ftruncate(other, 24)
        os.dup2(other, fd)
        os.close(other)
        found = shared_memory.Handle(0, os.fstat(fd).st_ino, 0, handle.dtype, (3,), (8,), True)
        with shared_memory.received([fd]), pytest.raises(shmcoll.ArenaError, match="can still change its size"):
            shared_memory.array_of(found)

    def test_no_file(self, sent: Any) -> None:
        handle, fd = sent
        os.close(fd)
        with pytest.raises(shmcoll.ArenaError, match="sent without its memory"):
            shared_memory.array_of(handle)


def test_a_descriptor_that_the_program_has_closed_is_refused() -> None:
    """Its number may be that of another shared array, which the ranks would write into instead."""
    first = shmcoll.shared(np.zeros(4))
    region = shared_memory.region_of(first)
    assert region is not None
    os.close(region.fd)
    second = shmcoll.shared(np.zeros(4))
    other = shared_memory.region_of(second)
    assert other is not None and other.fd == region.fd
    with pytest.raises(shmcoll.ArenaError, match=r"the program has closed descriptor \d+, which a shared array needs"):
        shmcoll.run(lambda x: x.fill(1), 2, first)
    shmcoll.run(lambda x: x.fill(2), 2, second)
    assert (first.tolist(), second.tolist()) == ([0] * 4, [2] * 4)
