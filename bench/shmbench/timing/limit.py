"""The limit of a collective: how long the copies and sums take that it cannot avoid (`collectives/parts.py`).

Every rank does its own again and again, all ranks at the same time, without a wait: there is a barrier before a loop,
and none in it. The arrays are as in the measurement of a library: as many pairs in turn, of numpy's memory. The
elements of a peer come from one of three places:

    reads      its private memory, which the kernel reads (process_vm_readv), as a library does that copies once
    loads      its arrays in memory that both map: what a library could do if all arrays were shared
    cells      a piece that the cache of the rank holds. A rank whose inputs others need copies these into such a piece.
               So do libraries that copy through shared memory. It may be faster than one copy: nothing has to come from
               memory that a peer has read already, and here no line has to come from the core of a peer, either

Each with plain stores and with stores past the caches, which the kernel does not have. The limit is the least of the
six. A few loops find those that are not much slower than the fastest one; only these are timed further.

The steps that are timed are checked as well. Without waits a rank may read what its peer has not made yet, and in place
what it has overwritten. So for the check each rank does all its steps as often as there are ranks, with a barrier
between, and in place they read a copy of the inputs.
"""

import contextlib
import os
from collections.abc import Callable
from itertools import product
from statistics import median

import numpy as np

from shmbench.cli.options import READS
from shmbench.collectives import Case
from shmbench.collectives.parts import OUT, SUMS, X, longest_share, parts_for_others
from shmbench.collectives.payload import wrong
from shmbench.timing.library import Shmcoll
from shmbench.timing.measure import (
    FEWEST_ITERATIONS,
    MOST_ITERATIONS,
    PILOT_SECONDS,
    ROUND_SECONDS,
    Bench,
    Plan,
    Timing,
    buffers_of,
    filling,
)
from shmbench.timing.step_lists import CELLS, LOADS, Maker, Places, Way
from shmbench.timing.steps import Steps
from shmcoll.engine.compiler.compile import load_kernel
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.errors import ArenaError

NEAR = 1.4  # times the fastest way: others are not timed further
PAGE, BEHIND = 4096, 16  # long arrays of numpy begin so many bytes behind a page


class Limit(Shmcoll):
    """The ranks of a job of shmcoll, whose barrier separates the loops."""

    name = "limit"


class _SharedMemory:
    """Memory of this rank that all ranks map. base: of each rank, what is added to an address of its memory to have it
    here."""

    def __init__(self, bench: "LimitBench", block: np.ndarray):
        self._block, self._used = block, 0
        self._views = bench.library.comm.views(block)
        owners = bench.library.exchange(np.array([block.ctypes.data], np.float64))[:, 0]
        self.base = [view.ctypes.data - int(owner) for view, owner in zip(self._views, owners, strict=True)]

    def empty(self, length: int, dtype: np.dtype) -> np.ndarray:
        first = -(-(self._block.ctypes.data + self._used) // PAGE) * PAGE + BEHIND - self._block.ctypes.data
        self._used = first + length * dtype.itemsize
        return self._block[first : self._used].view(dtype)


class Arrays:
    """The arrays of a rank. places: for each pair, where those of all ranks are; copied: with copies of the inputs.

    memory: where they are; None: in private memory.
    """

    def __init__(self, bench: "LimitBench", case: Case, plan: Plan, memory: _SharedMemory | None = None):
        empty: Callable[..., np.ndarray] = memory.empty if memory else np.empty
        self._memory = memory
        self._base = memory.base if memory else [0] * case.ranks
        self.buffers = buffers_of(bench.collective, case, plan.buffers, empty)
        self.sums = empty(longest_share(case), case.dtype)
        x, _ = self.buffers[0]
        self.inputs = empty(x.size if case.in_place and x is not None else 0, case.dtype)
        self.places = self.copied = [self._places(bench, x, out) for x, out in self.buffers]
        if case.in_place:
            self.copied = [self._places(bench, self.inputs, out) for _, out in self.buffers]

    def _places(self, bench: "LimitBench", x: np.ndarray | None, out: np.ndarray | None) -> Places:
        mine = np.array([0 if one is None else one.ctypes.data for one in (x, out, self.sums)], np.float64)
        return [
            {name: int(address) + base for name, address in zip((X, OUT, SUMS), row, strict=True)}
            for row, base in zip(bench.library.exchange(mine), self._base, strict=True)
        ]

    @property
    def bytes(self) -> int:
        """Return how many bytes such arrays take, each at a place of its own on pages."""
        arrays = [self.sums, self.inputs, *(one for pair in self.buffers for one in pair if one is not None)]
        return sum(one.nbytes + 2 * PAGE for one in arrays)


class _Loop:
    """One way to do the steps."""

    def __init__(self, bench: "LimitBench", case: Case, arrays: Arrays, way: Way, maker: Maker):
        self._bench, self._case, self.arrays, self._maker = bench, case, arrays, maker
        self._parts, self._sent = way.parts(case), parts_for_others(way.parts, case)
        self._kernel = load_kernel(BY_NUMPY[case.dtype], case.op) if bench.collective.reduces else 0
        made = [maker.made(self._parts, self._sent, places) for places in arrays.places]
        self._steps = Steps([one.steps for one in made], self._kernel, case.ranks, keeps=made)

    def is_possible(self) -> bool:
        """Return whether the kernel lets all ranks read what they have to."""
        try:
            self._checked(self.arrays.places[0]).run(1)
        except OSError:
            return self._bench.all(False)
        return self._bench.all(True)

    def _checked(self, places: Places) -> Steps:
        """Return steps that make the right result."""
        made = self._maker.made(self._parts, self._sent, places, checked=True)
        return Steps([made.fetches + made.steps], self._kernel, self._case.ranks, keeps=made)

    def seconds(self, n: int) -> float:
        """Return the seconds of one of `n` rounds of the steps on the slowest rank."""
        return self._bench.slowest(self._steps.run, n)

    def mistakes(self) -> int:
        """Return the number of wrong elements of this rank after the steps, from new inputs on."""
        case, buffers, found = self._case, self.arrays.buffers, 0
        for seq, pair, places in zip(self._bench.refill(case, buffers), buffers, self.arrays.copied, strict=True):
            x, out = pair
            if case.in_place and x is not None:
                self.arrays.inputs[...] = x
            steps = self._checked(places)
            for _ in range(case.ranks):
                self._bench.library.barrier()
                steps.run(1)
            self._bench.library.barrier()
            found += 0 if out is None else wrong(out, self._bench.collective.expected(case, seq))
        return found


class LimitBench(Bench):
    """Measures the limit of one case after another."""

    def measure(self, case: Case, plan: Plan) -> Timing:
        """Time all ways, and return the timing of the fastest one."""
        loops = self._loops(case, plan)
        mistakes = sum(loop.mistakes() for loop in loops.values()) if plan.check else 0
        total = int(self.library.exchange(np.array([mistakes], np.float64)).sum()) if plan.check else None
        first = next(iter(loops.values()))
        tried = plan.iterations or filling(PILOT_SECONDS, first.seconds)
        found = {way: min(loop.seconds(tried) for _ in range(2)) for way, loop in loops.items()}
        least = min(found.values())
        seconds: dict[Way, list[float]] = {way: [] for way, time in found.items() if time < NEAR * least}
        n = plan.iterations or round(ROUND_SECONDS / len(seconds) / least)
        n = max(FEWEST_ITERATIONS, min(MOST_ITERATIONS, n))
        for _ in range(plan.rounds):
            for way, times in seconds.items():
                loops[way].seconds(1)  # the other arrays may have taken the caches
                times.append(loops[way].seconds(n))
        found |= {way: median(times) for way, times in seconds.items()}
        best = min(seconds, key=found.__getitem__)
        ways = {str(way): time for way, time in found.items()}
        return Timing(found[best], seconds[best], n, total, len(first.arrays.buffers), ways)

    def all(self, mine: bool) -> bool:
        """Return whether all ranks say so."""
        return bool(self.library.exchange(np.array([mine], np.float64)).all())

    def _loops(self, case: Case, plan: Plan) -> dict[Way, _Loop]:
        """Return a loop for each way that is possible here."""
        processes = [int(row[0]) for row in self.library.exchange(np.array([os.getpid()], np.float64))]
        private = Arrays(self, case, plan)
        kinds = {READS: private, CELLS: private, LOADS: self._shared(case, plan, private.bytes)}
        found = {}
        for source, arrays in kinds.items():
            if arrays is None:
                continue
            self.refill(case, arrays.buffers)
            for streams, parts in product((False, True), self.collective.parts):
                way = Way(source, streams, parts)
                loop = _Loop(self, case, arrays, way, Maker(case, way, processes))
                if loop.is_possible():
                    found[way] = loop
        if not found:
            raise OSError("no rank may read the memory of another, and there is too little shared memory (--heap)")
        return found

    def _shared(self, case: Case, plan: Plan, size: int) -> Arrays | None:
        """Return arrays in memory that all ranks map, or None if there is too little."""
        block: np.ndarray | None = None
        with contextlib.suppress(ArenaError):
            block = self.library.comm.empty(size, np.uint8)
        if not self.all(block is not None) or block is None:
            return None
        return Arrays(self, case, plan, _SharedMemory(self, block))
