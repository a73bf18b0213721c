"""The arena: one sparse mapping shared by all ranks. The only file that asks the system for memory.

Life. The creator (the launcher, or the only rank) makes a file in memory without a name, sizes it sparsely, commits the
pages that the job needs, and writes the job page. Ranks inherit the descriptor and map it. Nothing has a name, so
nothing can be left behind: the kernel frees the pages with the last descriptor and mapping.

Memory is committed before it is used, so that too little of it is an `ArenaError` here and never a SIGBUS later. When
the file is made, `posix_fallocate` commits what the job needs. Memory that ranks allocate afterwards is committed by
address (`pages.py`), because the program may have closed the descriptor by then. In a memory cgroup neither of these
fails; the process is killed instead. Therefore the amounts are compared beforehand.

The descriptor stays open for programs that inspect the job from outside, and for locks (`diagnostics/report_lock.py`).
Code that uses it after the start calls `has_descriptor` first.
"""

import ctypes
import errno
import mmap
import os
import resource
import time
import weakref

from shmcoll.engine import fences, layout
from shmcoll.engine.memory import arena_file, faults, pages, thresholds
from shmcoll.engine.memory.available_memory import LARGER, amount, available, mib
from shmcoll.engine.system.caches import own_cache
from shmcoll.engine.system.cores import usable_cores
from shmcoll.engine.system.descriptors import file_of
from shmcoll.engine.system.processes import process_start
from shmcoll.engine.system.refusals import refused
from shmcoll.errors import ArenaError

WIDEST_BYTES = 4 << 40  # the largest span of the mapping; untouched ranges take no memory
MAP_FIXED, MAP_NORESERVE = 0x10, 0x4000
_MOMENT, _KNOWN_PART = 0.02, 16  # seconds, and a 16th
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p


class Arena:
    """A mapped arena. address: where it begins in this process.

    `load` and `store` reach single words. Every load is an acquire and every store a release: a rank that finds a word
    finds all that its writer stored before it. A store that must be seen before this rank looks at another word needs
    `fence` in between.
    """

    def __init__(self, fd: int, size: int):
        self.fd = fd
        self.size = size
        self._file = file_of(fd)
        # Not Python's mmap, which keeps a descriptor of its own
        self.address = _map_aligned(size, fd)
        self._unmap = weakref.finalize(self, _LIBC.munmap, ctypes.c_void_p(self.address), ctypes.c_size_t(size))
        self._unmap.atexit = False  # what runs at exit still tells the peers
        self._words = (ctypes.c_int64 * (size // layout.WORD)).from_address(self.address)
        self._known_room = 0.0, 0  # until when, and how many bytes: see `check_room`
        self.ranks = 0

    def load(self, offset: int) -> int:
        value: int = self._words[offset >> 3]
        fences.acquire()
        return value

    def store(self, offset: int, value: int) -> None:
        fences.release()
        self._words[offset >> 3] = value

    def load_each(self, first: int, stride: int, count: int) -> list[int]:
        """Return `count` words, `stride` bytes apart."""
        values: list[int] = self._words[first >> 3 : first + stride * count >> 3 : stride >> 3]
        fences.acquire()
        return values

    def fence(self) -> None:
        fences.fence()

    def read(self, offset: int, length: int) -> bytes:
        data = ctypes.string_at(self.address + offset, length)
        fences.acquire()
        return data

    def write(self, offset: int, data: bytes) -> None:
        fences.release()
        ctypes.memmove(self.address + offset, data, len(data))

    def unmap(self) -> None:
        """Give the mapping back and keep the descriptor, for processes that attach to it."""
        self._unmap()

    def close(self) -> None:
        """Unmap and close. For an arena in which no rank has taken part."""
        self._unmap()
        os.close(self.fd)

    def keep_mapped(self) -> None:
        """Leave the mapping in place until the process ends, because arrays may outlive this object."""
        self._unmap.detach()

    def abandon(self, kept: tuple[int, int] = (0, 0)) -> None:
        """Keep nothing of the arena alive in a process that a rank has forked, except for a range `[kept[0], kept[1])`
        of offsets. The other addresses read as zero afterwards."""
        for first, end in ((0, kept[0]), (kept[1], self.size)):
            if first < end:
                _mmap(self.address + first, end - first, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED, -1)
        if self.has_descriptor():
            os.close(self.fd)
        self.fd = -1  # the number will be some other file's

    def has_descriptor(self) -> bool:
        """Return whether the descriptor is still the arena's: a program may have closed it, and opened a file in its
        place."""
        return self._file is not None and file_of(self.fd) == self._file

    def doorbell(self, rank: int) -> int:
        """Return the address of the semaphore of a rank of the world."""
        mailbox = self.world + layout.mailbox_offset(self.ranks, rank)
        return self.address + mailbox + layout.SEMAPHORE

    @property
    def nonce(self) -> str:
        return self.read(layout.JOB_NONCE, 16).hex()

    @property
    def world(self) -> int:
        """Offset of the world's group region."""
        return layout.world_offset(self.ranks)

    def commit(self, offset: int, length: int, purpose: str, *, huge: bool = True) -> None:
        """Back the unused range `[offset, offset + length)` with memory. If there is too little, it takes nothing and
        raises `ArenaError`. huge: see `pages.give`."""
        self.check_room(length, purpose)
        given = False
        try:
            given = pages.give(self.address + offset, length, huge=huge)
        finally:
            if not given:
                pages.drop(self.address + offset, length)
        if not given:
            raise self.too_small(purpose, length)

    def too_small(self, purpose: str, length: int) -> ArenaError:
        """Return the error for a range of `length` bytes for which there is no memory."""
        return arena_file.too_small(purpose, length, self._place())

    def check_room(self, length: int, purpose: str) -> None:
        """Raise `ArenaError` if less than `length` bytes of memory are left. To ask the system takes longer than all
        else that makes a group. So for a moment the answer counts for a part of what was free."""
        now, (until, room) = time.monotonic(), self._known_room
        if now >= until or length > room:
            place = self._place()
            free = available(place)
            if free < length:
                raise arena_file.too_small(purpose, length, place)
            until, room = now + _MOMENT, length + (free - length) // _KNOWN_PART
        self._known_room = until, room - length

    def map_privately(self, offset: int, length: int, address: int) -> bool:
        """Map committed memory at another address, too, in place of what is there: a store makes a private copy of the
        page. All are multiples of a page. Returns False if there is no descriptor any more."""
        if not self.has_descriptor():
            return False
        _mmap(address, length, mmap.MAP_PRIVATE | MAP_FIXED, self.fd, offset)
        return True

    def clear(self, offset: int, length: int) -> None:
        """Clear committed memory that is not used any more, and give it back."""
        pages.clear(self.address + offset, length)

    def drop(self, offset: int, length: int) -> None:
        """Give the whole pages of a range back that nobody uses any more."""
        pages.drop(self.address + offset, length)

    def advice_on_limit(self) -> str:
        """Return what limits the heap besides its option, for messages."""
        return f". By default it is half of the room in {arena_file.FOLDER}. {LARGER}." if self._place() else ""

    def _place(self) -> str | None:
        """Return a place to ask how much room the arena's file system has; None for a memfd, which has no such
        limit."""
        try:
            found = os.stat(arena_file.FOLDER).st_dev  # noqa: PTH116 - a Path would cost more than the call
        except OSError:
            return None
        return arena_file.FOLDER if self._file and found == self._file.device else None


def create(
    ranks: int,
    *,
    timeout: float,
    cell_bytes: int = layout.CELL_BYTES,
    window_bytes: int = 0,
    heap: int | None = None,
    name: str = "",
    nonce: bytes | None = None,
    creator: int = 0,
) -> Arena:
    """Make the arena of a job: committed for `ranks` ranks, job page and doorbells ready.

    heap: the most bytes that shared arrays and groups of all ranks may take; None: SHMCOLL_HEAP, or half of what is
    available. window_bytes: the length of a window (`engine/protocol/cells.py`); 0: by the caches. name: the name of
    the file in /dev/shm, which the caller removes; by default the file has no name. nonce: 16 bytes, by default random.
    creator: the process that represents the job, if it is not this one. Raises `ArenaError` with the amounts if there
    is too little shared memory, `ValueError` for a variable with a wrong value, and `FileExistsError` if the name
    exists.
    """
    check_ranks(ranks, cell_bytes)
    creator = creator or os.getpid()
    cores = usable_cores()
    faults.planned()  # refused here, before ranks start
    limits = thresholds.of_job(ranks, cores)
    limits = limits._replace(slice_bytes=min(limits.slice_bytes, cell_bytes))
    window_bytes = window_bytes or max(cell_bytes, usual_window(ranks, cores))
    need = layout.arena_bytes(ranks, window_bytes)
    fd = arena_file.in_dev_shm() if name else arena_file.anonymous()
    try:
        heap = _heap_limit(fd) if heap is None else heap
        # Any rank may need all of the heap, in pieces of any size: each has a share of the span that is wide enough
        arena = _map_sparse(fd, need, layout.align(min(need + 4 * ranks * heap, WIDEST_BYTES), layout.PAGE))
        arena.ranks = ranks
        arena_file.seal(fd)
        arena_file.allocate(fd, need, f"the arena of {ranks} ranks")
    except (ArenaError, ValueError):
        os.close(fd)
        raise
    for offset, value in (
        (layout.JOB_VERSION, layout.VERSION),
        (layout.JOB_BYTES, arena.size),
        (layout.JOB_RANKS, ranks),
        (layout.JOB_CREATOR, creator),
        (layout.JOB_CREATOR_START, process_start(creator)),
        (layout.JOB_CREATED, time.monotonic_ns()),
        (layout.JOB_CORES, cores),
        (layout.JOB_CELL_BYTES, cell_bytes),
        (layout.JOB_WINDOW_BYTES, window_bytes),
        *zip(thresholds.WORDS, limits, strict=True),
        (layout.JOB_TIMEOUT, int(timeout * 1e9)),
        (layout.JOB_HEAP, heap),
    ):
        arena.store(offset, value)
    arena.write(layout.JOB_NONCE, nonce or os.urandom(16))
    for rank in range(ranks):
        if _LIBC.sem_init(ctypes.c_void_p(arena.doorbell(rank)), 1, 0):
            raise ArenaError(f"sem_init failed: {os.strerror(ctypes.get_errno())}")
    arena.store(layout.JOB_MAGIC, layout.MAGIC)
    if name:
        try:
            arena_file.publish(fd, name)
        except OSError:
            arena.close()
            raise
    return arena


def usual_window(ranks: int, cores: int) -> int:
    """Return the length of a window for so many ranks: `engine/protocol/cells.py` says why."""
    if not 1 < ranks <= cores:
        return layout.CELL_BYTES
    return max(own_cache() // (ranks - 1) // layout.CELL_BYTES, 1) * layout.CELL_BYTES


def check_ranks(ranks: int, cell_bytes: int = layout.CELL_BYTES) -> None:
    """Raise `ValueError` for more ranks than a job can have."""
    most = layout.most_ranks(cell_bytes)
    if ranks > most:
        raise ValueError(f"a job of {ranks} ranks: shmcoll joins {most} at most; start fewer")


def attach(fd: int, nonce: str | None) -> Arena:
    """Map the arena behind a descriptor after checking that it is ours. An inherited one is checked by its nonce, too.

    Raises `ArenaError` for a wrong owner, mode, size, kind, magic, version or nonce.
    """
    size = arena_file.checked_size(fd)
    arena_file.check_seals(fd)
    arena = Arena(fd, size)
    verify(arena, nonce)
    os.set_inheritable(fd, False)
    return arena


def verify(arena: Arena, nonce: str | None) -> None:
    """Check the job page, by the nonce too if it is known, and read the number of ranks from it."""
    magic, version, size, ranks = (
        arena.load(o) for o in (layout.JOB_MAGIC, layout.JOB_VERSION, layout.JOB_BYTES, layout.JOB_RANKS)
    )
    if magic != layout.MAGIC:
        raise ArenaError(f"descriptor {arena.fd} is not a shmcoll arena (magic {magic & (1 << 64) - 1:#x})")
    if version != layout.VERSION:
        raise ArenaError(
            f"the arena has layout version {version}, this shmcoll has {layout.VERSION}: "
            f"the launcher and the ranks use different releases of shmcoll"
        )
    if size != arena.size:
        raise ArenaError(f"the arena says it has {size} bytes but has {arena.size}")
    if nonce is not None and arena.nonce != nonce:
        raise ArenaError("the arena's nonce is not the one this rank was given: it belongs to another job")
    cell_bytes, window = arena.load(layout.JOB_CELL_BYTES), arena.load(layout.JOB_WINDOW_BYTES)
    cells = 0 < cell_bytes <= window <= size and cell_bytes % layout.LINE == 0 and window % layout.LINE == 0
    room = 0 < ranks <= layout.most_ranks(cell_bytes) and cells and layout.arena_bytes(ranks, window) <= size
    most = 1 << 62  # sums with it do not overflow
    positive = (*thresholds.WORDS, layout.JOB_TIMEOUT, layout.JOB_CORES)
    limits = arena.load(layout.JOB_SLICE_BYTES) <= cell_bytes and 0 <= arena.load(layout.JOB_HEAP) <= WIDEST_BYTES
    if not (room and limits and all(0 < arena.load(word) <= most for word in positive)):
        raise ArenaError(f"the arena's job page is damaged: {ranks} ranks, cells of {cell_bytes} bytes, {size} in all")
    arena.ranks = ranks


def _map_aligned(size: int, fd: int) -> int:
    """Map a file at a multiple of a huge page (`pages.py`), if there is room."""
    at = _mmap(None, size, mmap.MAP_SHARED, fd)
    if at % pages.HUGE == 0:
        return at
    _LIBC.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
    return _mmap(at & -pages.HUGE, size, mmap.MAP_SHARED, fd)  # a wish: Linux maps it elsewhere if this is not free


def _mmap(address: int | None, size: int, flags: int, fd: int, offset: int = 0) -> int:
    """Call mmap(2) for reading and writing."""
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, flags | MAP_NORESERVE
    at = _LIBC.mmap(ctypes.c_void_p(address), ctypes.c_size_t(size), protection, flags, fd, ctypes.c_int64(offset))
    if at is None or at == ctypes.c_void_p(-1).value:
        raise ArenaError(f"cannot map {mib(size)} of shared memory: {os.strerror(ctypes.get_errno())}{space_limit()}.")
    return int(at)


def space_limit() -> str:
    """Return the limit on address space, and what raises it, as the end of a message; '' without a limit."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return "" if limit == resource.RLIM_INFINITY else f"; the address space is limited to {mib(limit)} (ulimit -v)"


def _map_sparse(fd: int, need: int, size: int) -> Arena:
    """Size and map the file. If the address space is limited, the span is smaller, but it holds `need` bytes.

    It then takes at most a quarter of the limit: numpy's BLAS ends the process if it does not get what it needs.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        size = max(min(size, layout.align(limit // 4, layout.PAGE)), need)
    while True:
        try:
            os.ftruncate(fd, size)
            return Arena(fd, size)
        except (ArenaError, OSError) as e:
            if size <= need:
                raise e if isinstance(e, ArenaError) else _unsized(need, e) from None
            size = max(layout.align(size // 4, layout.PAGE), need)


def _unsized(need: int, error: OSError) -> ArenaError:
    advice = " Raise the limit on the size of files (ulimit -f)." if error.errno == errno.EFBIG else ""
    return ArenaError(f"cannot size the arena, of {mib(need)}: {refused(error) or error.strerror}.{advice}")


def _heap_limit(fd: int) -> int:
    given = os.environ.get("SHMCOLL_HEAP")
    if not given:
        return min(available(fd) // 2, WIDEST_BYTES)
    if not 0 < amount(given) <= WIDEST_BYTES:
        raise ValueError(f"SHMCOLL_HEAP={given!r} is not an amount of memory; give one like 512M or 2G")
    return amount(given)
