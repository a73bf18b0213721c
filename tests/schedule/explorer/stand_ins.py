"""Stand-ins for the operations that routines import: what happens on shared addresses goes to the machine.

Shared addresses begin at SHARED; all else is the rank's private memory. Copies from and to shared memory become reads
and writes of whole ranges, one step each; `peek` and `poke` refuse shared words. The launcher's own code
(`engine/memory/records.py`) rings through the machine too, and finds a clock that stands still.
"""

import builtins
import contextlib
import ctypes
import errno
import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

from shmcoll.collectives import ROUTINES
from shmcoll.engine import atomics
from shmcoll.engine.kernels import kernels
from shmcoll.engine.memory import group, holds, records
from shmcoll.engine.messages import offer, read_message, ring_buffers
from shmcoll.engine.protocol import (
    block_mover,
    cells,
    count_tables,
    deadlock,
    exposure,
    mailboxes,
    nontemporal,
    peer_memory,
    placement,
    reduction,
    sync,
    team,
    wait,
    ways,
)
from shmcoll.runtime import turns
from tests.schedule.explorer.program import (
    ADD,
    CHANCE,
    FENCE,
    GONE,
    MARK,
    READ,
    RELEASE,
    RING,
    SLEEP,
    WRITE,
    Violation,
    perform,
)

WORD = 8
SHARED = 1 << 52  # above every address that a process can have
FIRST_PID = 4711  # of rank 0; those of the others follow
OWNERS = SHARED + (1 << 48)  # OWNER of each rank, as two threads of it see that word
KERNEL = 1  # "address" of the only kernel here: sums of int64

MODULES: tuple[ModuleType, ...] = (
    wait,
    sync,
    cells,
    kernels,
    nontemporal,
    offer,
    read_message,
    reduction,
    ring_buffers,
    block_mover,
    ways,
    count_tables,
    deadlock,
    exposure,
    mailboxes,
    peer_memory,
    placement,
    team,
    *(sys.modules[ROUTINES[name].__module__] for name in ("send", "recv")),
    *(module for name, module in sys.modules.items() if name.startswith("shmcoll.collectives.")),
)


class Hooks:
    """`atomics.hooks` while exploring. `events`: what may meet a rank, by its context; see `events.py`. `owners`:
    private words that another thread of the rank writes, and where they are shared."""

    def __init__(self) -> None:
        self.events: dict[int, Any] = {}
        self.owners: dict[int, int] = {}

    def load(self, address: int) -> int:
        return read(self.owners.get(address, address), 1)[0]

    def store(self, address: int, value: int) -> None:
        write(address, (value,))

    load_acquire = load

    def store_release(self, address: int, value: int) -> None:
        write(address, (value,), RELEASE)

    def add(self, address: int, value: int) -> int:
        return perform(ADD, address, value)

    def fence(self) -> None:
        perform(FENCE)

    def acquire_fence(self) -> None:
        """Nothing: the machine keeps loads in order."""

    def yield_core(self) -> None:
        pass

    def sleep_on(self, semaphore: int, _ns: int) -> None:
        perform(SLEEP, semaphore)
        if events := self._events():
            events.pass_time(1)

    def ring(self, semaphore: int) -> None:
        perform(RING, semaphore)

    def clock(self) -> int:
        events = self._events()
        return events.now() if events else 0

    def _events(self) -> Any:
        return self.events.get(_context()) if self.events else None

    def cpu_time(self) -> int:
        return 0

    def current_core(self) -> int:
        """All ranks share core 0, and stay there although each tries to move."""
        return 0

    def next_core(self, core: int) -> int:
        return 1 - core

    def move_to(self, core: int) -> None:
        pass

    def process_gone(self, pid: int) -> int:
        return perform(GONE, 0, pid - FIRST_PID)

    def read_memory(self, pid: int, target: int, source: int, length: int) -> int:
        if perform(GONE, 0, pid - FIRST_PID):
            return -errno.ESRCH
        write(target, read(source, length // WORD))
        return length

    def signals_pending(self, ctx: int) -> int:
        return self.events[ctx].in_wait() if ctx in self.events else 0

    def thread_states(self, _ctx: int) -> int:
        return 1

    def chance(self) -> bool:
        return bool(perform(CHANCE))

    def mark(self) -> None:
        perform(MARK)


def _context() -> int:
    """Of the routine that is running."""
    return next(f.f_locals["ctx"] for f in _callers() if "ctx" in f.f_locals)


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def read(address: int, words: int) -> tuple[int, ...]:
    if address >= SHARED:
        return perform(READ, address, words)
    return tuple((ctypes.c_int64 * words).from_address(address))


def write(address: int, words: tuple[int, ...], kind: str = WRITE) -> None:
    if address >= SHARED:
        perform(kind, address, words)
    else:
        ctypes.memmove(address, (ctypes.c_int64 * len(words))(*words), len(words) * WORD)


def copy(target: int, source: int, length: int) -> None:
    assert length % WORD == 0, "explored payloads are whole words"
    if length > 0:
        words = read(source, length // WORD)
        write(target, words)


def copy_rows(target: int, target_step: int, source: int, source_step: int, length: int, rows: int) -> None:
    for i in range(rows):
        copy(target + i * target_step, source + i * source_step, length)


def add_words(mode: int, target: int, accumulator: int, source: int, count: int, _ranks: int) -> int:
    """The reduce kernel: sums of int64. See `engine/kernels/kernels.py` for the modes."""
    if count == 0:
        return 0
    words = read(accumulator if mode == kernels.STORE else source, count)
    if mode in (kernels.STEP, kernels.FINISH, kernels.JOIN):
        sums = read(accumulator, count)
        words = tuple(a + b for a, b in zip(sums, words, strict=True))
    write(accumulator if mode == kernels.STEP else target, words)
    return 0


def private(name: str, access: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(address: int, *value: int) -> Any:
        if address >= SHARED:
            raise Violation(f"{name} of a shared word")
        return access(address, *value)

    return guarded


@contextlib.contextmanager
def exploring() -> Iterator[None]:
    """Put the stand-ins in place."""
    words: dict[str, Any] = {"peek": private("peek", atomics.peek), "poke": private("poke", atomics.poke)}
    words |= {"PART_BYTES": 128, "FEWEST_POLLS": 1, "MANY": 1, "FIRST_RING": 512, "USUAL_RING": 512, "KEPT_RING": 1024}
    stand_ins = {"copy": copy, "stream": copy, "copy_rows": copy_rows, **words}
    with contextlib.ExitStack() as undo:

        def put(owner: Any, name: str, value: Any) -> None:
            if hasattr(owner, name):
                undo.callback(setattr, owner, name, getattr(owner, name))
            else:
                assert hasattr(builtins, name), f"{owner} has no {name}"
                undo.callback(delattr, owner, name)
            setattr(owner, name, value)

        for module in MODULES:
            for name, stand_in in stand_ins.items():
                if hasattr(module, name):
                    put(module, name, stand_in)
        put(sys.modules["shmcoll.engine.messages.send"], "PAGE", 64)
        put(cells, "PAGE", 64)
        for name, value in (("PART_UNIT", 1), ("PAUSES", 1)):
            put(team, name, value)
        put(cells, "MOVED_BYTES", 64)
        put(cells, "EAGER_BYTES", 48)
        put(sync, "HEADERS", 4)
        put(sync, "ROOTED", 4)
        put(offer, "LONGER", 1)
        put(sys.modules["shmcoll.collectives.prefix_reduction"], "MOST_DIRECT", 3)
        put(sys.modules["shmcoll.collectives.prefix_reduction"], "LONG", 64)
        put(offer, "has_room", lambda _ctx, _peer, _length: False)  # short messages are offered, too
        put(sys.modules["shmcoll.collectives.all_reduce_parts"], "PIECE_BYTES", 32)
        put(turns, "memoryview", lambda words: words)  # those of `calls_of_threads.py` are no array
        put(atomics, "hooks", Hooks())
        put(atomics, "python_kernels", {KERNEL: add_words})
        put(group, "_sem_post", atomics.ring)
        put(holds, "how_ended", lambda _arena, rank: perform(GONE, 0, rank))
        put(records, "time", SimpleNamespace(monotonic_ns=lambda: 1))
        yield
