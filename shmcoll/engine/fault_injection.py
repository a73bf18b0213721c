"""Faults on request, for tests: a rank that dies, stops or dawdles at an operation on shared words that one can number.

SHMCOLL_FAULTS, read when a rank makes a communicator, is one or more of these, separated by commas; R is a rank of the
world, or * for all:

    R:kill@K      rank R kills itself (SIGKILL) just before its K-th operation on shared words, counted from 1
    R:stop@K      rank R stops itself (SIGSTOP) there
    R:jitter@S    rank R delays each of them by chance (seed S): not at all, some loops, a yield, a sleep of 1 to 100 us

A rank that it names runs the routines' own source as plain Python, with `atomics.hooks` in front of each operation,
without polling; ranks that it does not name run compiled code as ever. Unset, it costs a look at the environment when a
communicator is made, and nothing in a call.
"""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.engine import atomics, fences, layout
from shmcoll.engine import context as c
from shmcoll.engine.collective import Collective
from shmcoll.engine.memory.faults import planned
from shmcoll.engine.native import entry

if TYPE_CHECKING:
    from random import Random

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_PLAIN = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)
_kept: list[Any] = []  # ctypes does not keep what it makes


def plan(rank: int) -> bool:
    """Arrange the faults that SHMCOLL_FAULTS names for this rank. Return whether there are any. Raise `ValueError` for
    wrong text."""
    faults = [(what, number) for who, what, number in planned() if who in ("*", str(rank))]
    if faults and not isinstance(atomics.hooks, Hooks):
        atomics.hooks = Hooks(faults, rank)
        atomics.python_kernels = _NativeKernels()
    return bool(faults)


def make_callable(record: Collective, words: np.ndarray) -> Callable[..., int]:
    """Return the callable of a collective whose routine runs as plain Python. It cannot note lines as native code
    does."""
    for word in (c.POLLS, c.YIELDS, c.PLACES):
        words[word // layout.WORD] = 0
    function = _PLAIN(entry.make_plain(record.routine, record))
    _kept.append(function)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address
    return entry.PlainEntry(address, words)


class Hooks:
    """Count operations on shared words, and do what has been planned before each of them."""

    def __init__(self, faults: list[tuple[str, int]], rank: int):
        self._signals = {number: _SIGNALS[what] for what, number in faults if what in _SIGNALS}
        seeds = [number for what, number in faults if what == "jitter"]
        self._draw = _generator(f"{seeds[0]} {rank}") if seeds else None
        self.count = 0

    def _before(self) -> None:
        self.count += 1
        if self.count in self._signals:
            os.kill(os.getpid(), self._signals[self.count])
        if self._draw:
            _dawdle(self._draw)

    def load(self, address: int) -> int:
        self._before()
        return ctypes.c_int64.from_address(address).value

    def store(self, address: int, value: int) -> None:
        self._before()
        ctypes.c_int64.from_address(address).value = value

    def load_acquire(self, address: int) -> int:
        value = self.load(address)
        fences.acquire()
        return value

    def store_release(self, address: int, value: int) -> None:
        self._before()
        fences.release()
        ctypes.c_int64.from_address(address).value = value

    def add(self, address: int, value: int) -> int:
        return int(self._really(atomics.add, address, value))

    def fence(self) -> None:
        self._before()
        fences.fence()

    def acquire_fence(self) -> None:
        fences.acquire()

    def yield_core(self) -> None:
        os.sched_yield()

    def sleep_on(self, semaphore: int, ns: int) -> None:
        self._really(atomics.sleep_on, semaphore, ns)

    def ring(self, semaphore: int) -> None:
        self._really(atomics.ring, semaphore)

    def read_memory(self, pid: int, target: int, source: int, length: int) -> int:
        return int(self._really(atomics.read_memory, pid, target, source, length))

    def _really(self, operation: Callable[..., Any], *arguments: int) -> Any:
        self._before()
        atomics.hooks = None
        try:
            return operation(*arguments)
        finally:
            atomics.hooks = self

    def clock(self) -> int:
        return time.monotonic_ns()

    def cpu_time(self) -> int:
        return 0

    def current_core(self) -> int:
        return -1  # not known, so a rank stays where it is

    def next_core(self, _core: int) -> int:
        return -1

    def move_to(self, _core: int) -> None:
        pass

    def process_gone(self, _pid: int) -> int:
        return 0

    def signals_pending(self, _ctx: int) -> int:
        return 0

    def thread_states(self, _ctx: int) -> int:
        return threading.active_count()


class _NativeKernels(dict[int, Callable[..., Any]]):
    """Reduce kernels stay compiled: no word of theirs is a sequence word."""

    def __missing__(self, address: int) -> Callable[..., Any]:
        return self.setdefault(address, _KERNEL(address))


def _generator(seed: str) -> "Random":
    from random import Random

    return Random(seed)


def _dawdle(draw: "Random") -> None:
    choice = draw.random()
    if choice < 0.1:
        time.sleep(draw.uniform(1e-6, 1e-4))
    elif choice < 0.3:
        os.sched_yield()
    elif choice < 0.6:
        for _ in range(draw.randrange(100)):
            pass
