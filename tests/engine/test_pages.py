"""Memory by address: given where there is some, cleared whatever the kernel says, and never a byte beside it."""

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import pages
from shmcoll.engine.memory.heap import Heap
from tests.support.huge_pages import HUGE, huge_bytes, need_huge_pages
from tests.support.ranks import close

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def mapped() -> Iterator[tuple[int, int]]:
    """A descriptor, and the address of 64 pages of which its file has 32."""
    fd = os.memfd_create("test")
    os.ftruncate(fd, 32 * PAGE)
    memory = mmap.mmap(fd, 32 * PAGE)
    os.ftruncate(fd, 64 * PAGE)
    memory.resize(64 * PAGE)
    os.ftruncate(fd, 32 * PAGE)
    view = ctypes.c_char.from_buffer(memory)
    yield fd, ctypes.addressof(view)
    del view
    memory.close()
    os.close(fd)


def refuse(monkeypatch: pytest.MonkeyPatch, *advice: int) -> None:
    """As a kernel that does not know some of what madvise can do."""
    real = pages._advise

    def advise(begin: int, end: int, what: int) -> bool:
        if what in advice:
            ctypes.set_errno(errno.EINVAL)
            return False
        return real(begin, end, what)

    monkeypatch.setattr(pages, "_advise", advise)


KERNELS = {"new": (), "old": (pages.MADV_POPULATE_WRITE,), "without holes": (pages._MADV_REMOVE,)}


@pytest.mark.parametrize("kernel", KERNELS)
def test_memory_is_given_and_cleared(mapped, monkeypatch, kernel):
    refuse(monkeypatch, *KERNELS[kernel])
    fd, address = mapped
    assert pages.give(address + PAGE, 3 * PAGE)
    assert os.fstat(fd).st_blocks * 512 == 3 * PAGE
    assert ctypes.string_at(address + PAGE, 3 * PAGE) == bytes(3 * PAGE)
    ctypes.memset(address + PAGE, 7, 3 * PAGE)
    pages.clear(address + PAGE, 3 * PAGE)
    assert os.fstat(fd).st_blocks * 512 == (3 * PAGE if kernel == "without holes" else 0)
    assert ctypes.string_at(address + PAGE, 3 * PAGE) == bytes(3 * PAGE)


@pytest.mark.parametrize("kernel", ["new", "old"])
def test_where_there_is_no_memory_it_is_refused_and_nobody_dies(mapped, monkeypatch, kernel):
    """Behind the end of the file a store is a SIGBUS, as it is in a full file system."""
    refuse(monkeypatch, *KERNELS[kernel])
    fd, address = mapped
    assert not pages.give(address + 30 * PAGE, 4 * PAGE)
    pages.drop(address + 30 * PAGE, 2 * PAGE)
    assert os.fstat(fd).st_blocks == 0
    assert pages.give(address + 30 * PAGE, 2 * PAGE)


@pytest.mark.parametrize("kernel", KERNELS)
def test_neighbours_on_the_same_page_are_left_alone(mapped, monkeypatch, kernel):
    """Where the system's pages are longer than ours, as on some machines of aarch64."""
    refuse(monkeypatch, *KERNELS[kernel])
    monkeypatch.setattr(pages, "_PAGE", 16 * PAGE)
    _, address = mapped
    address = -(-address // (16 * PAGE)) * 16 * PAGE
    content = bytes(range(1, 17)) * (4 * PAGE // 16)
    ctypes.memmove(address, content, len(content))
    assert pages.give(address + 2 * PAGE, PAGE)
    assert ctypes.string_at(address, 2 * PAGE) == content[: 2 * PAGE]
    ctypes.memset(address + 2 * PAGE, 9, PAGE)
    pages.clear(address + 2 * PAGE, PAGE)
    assert ctypes.string_at(address, 4 * PAGE) == content[: 2 * PAGE] + bytes(PAGE) + content[3 * PAGE :]


@pytest.mark.parametrize("kernel", ["new", "without huge pages", "old"])
def test_long_memory_is_in_huge_pages(arena, monkeypatch, kernel):
    """If the kernel makes them. Each byte is there in any case, and none beside."""
    without = {"new": (), "without huge pages": (pages.MADV_COLLAPSE,), "old": (pages.MADV_POPULATE_WRITE,)}
    refuse(monkeypatch, *without[kernel])
    need_huge_pages()
    heap = Heap(arena, 0)
    before, length = os.fstat(arena.fd).st_blocks * 512, 3 * HUGE + 5 * layout.PAGE
    assert arena.address % HUGE == 0
    offset = heap.take(length, "a test")
    assert os.fstat(arena.fd).st_blocks * 512 - before == length
    assert arena.read(offset, length) == bytes(length)
    assert huge_bytes(arena.address + offset) == ((offset + length) // HUGE - -(-offset // HUGE)) * HUGE * (
        kernel == "new"
    )
    arena.write(offset, b"x" * length)
    heap.give(offset)
    assert os.fstat(arena.fd).st_blocks * 512 == before
    assert huge_bytes(arena.address + offset) == 0
    assert heap.take(length, "a test") == offset
    assert arena.read(offset, length) == bytes(length)


@pytest.fixture
def arena() -> Iterator[arenas.Arena]:
    made = arenas.create(1, timeout=1, heap=16 << 20)
    yield made
    close(made)


def test_locked_memory_of_the_heap_is_cleared(arena):
    """Linux gives no locked page back: what is taken next is zero all the same."""
    heap = Heap(arena, 0)
    offset = heap.take(4 * layout.PAGE, "a test")
    arena.write(offset, b"x" * 4 * layout.PAGE)
    place, length = ctypes.c_void_p(arena.address + offset), ctypes.c_size_t(4 * layout.PAGE)
    assert LIBC.mlock(place, length) == 0
    heap.give(offset)
    assert heap.take(4 * layout.PAGE, "a test") == offset
    assert arena.read(offset, 4 * layout.PAGE) == bytes(4 * layout.PAGE)
    assert LIBC.munlock(place, length) == 0


def test_groups_work_where_the_kernel_gives_nothing_back(ranks, monkeypatch):
    """What remained of a group would make the next one closed from the beginning."""
    refuse(monkeypatch, pages._MADV_REMOVE)

    def use(comm) -> None:
        for _ in range(5):
            group = comm.split(0)
            assert group.all_reduce(1) == 2
            group.close()
            comm.barrier()
            array = comm.zeros(10_000)
            assert not array.any()
            array[:] = 5.0
            del array

    ranks(2, use)


def test_an_arena_is_mapped_elsewhere_where_its_place_is_taken(monkeypatch):
    """What was there stays there."""
    real, taken = arenas._mmap, []
    around = real(None, 3 * HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
    place = -(-around // HUGE) * HUGE  # a free one, at a multiple of a huge page
    LIBC.munmap(ctypes.c_void_p(around), ctypes.c_size_t(3 * HUGE))

    def map_after_another(address, size, flags, fd):
        if address is None:
            return real(place + PAGE, size, flags, fd)
        assert address == place
        taken.append(real(place, PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1))
        ctypes.memset(taken[0], 7, PAGE)
        return real(address, size, flags, fd)

    monkeypatch.setattr(arenas, "_mmap", map_after_another)
    fd = os.memfd_create("test")
    os.ftruncate(fd, 3 * PAGE)
    at = arenas._map_aligned(3 * PAGE, fd)
    ctypes.memset(at, 1, 3 * PAGE)
    assert taken == [place]
    assert ctypes.string_at(place, PAGE) == b"\7" * PAGE
    assert os.pread(fd, 4 * PAGE, 0) == b"\1" * 3 * PAGE
    LIBC.munmap(ctypes.c_void_p(at), ctypes.c_size_t(3 * PAGE))
    LIBC.munmap(ctypes.c_void_p(place), ctypes.c_size_t(PAGE))
    os.close(fd)
