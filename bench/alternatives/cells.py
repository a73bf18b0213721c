"""Where cells lie and how they are written: in one place or moving on, by plain stores or past the caches.

    shmrun -n 2 bench/alternatives/cells.py [--quick] [collective ...]

All four ways are called in turn by the same ranks, so that each is measured in the same minutes: on a virtual machine
the time that a line takes between two cores changes within seconds. See `shmcoll/engine/protocol/cells.py`. The last
column is what ranks do by themselves. Long arrays would go in one copy, without cells, if they had been faster lately;
here they never do.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import shmcoll
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.thresholds import MOST, defaults
from shmcoll.engine.system.cores import usable_cores

PLAIN, PASSING = (10**12, 1), (1, 10**12)  # paces past the caches and by plain stores, that decide for the other way
WAYS = {
    "one place": (False, PLAIN),
    "past caches": (False, PASSING),
    "moving": (True, PLAIN),
    "moving, past": (True, PASSING),
    "by pace": (True, None),
}
PACES = c.WRITES, c.WRITE_PACE, c.PASS_PACE, c.FETCH_PACE


class Ways:
    """Lets a communicator use its cells in one of the ways."""

    def __init__(self, comm: shmcoll.Communicator):
        self.words = comm._dispatcher.words
        self.window = self._get(c.WINDOW_BYTES)
        self.found = {word: self._get(word) for word in PACES}  # by the ranks themselves
        thresholds = defaults(comm.size, usable_cores())
        comm._dispatcher.choose_by(replace(thresholds, direct_bytes=MOST, exchange_bytes=MOST))

    def take(self, way: str) -> None:
        moves, paces = WAYS[way]
        self._set(c.WINDOW_BYTES, self.window if moves else self._get(c.CELL_BYTES))
        values = self.found if paces is None else dict(zip(PACES, (1, paces[1], paces[0], 1), strict=True))
        for word, value in values.items():
            self._set(word, value)

    def leave(self, way: str) -> None:
        if WAYS[way][1] is None:
            self.found = {word: self._get(word) for word in PACES}

    def _get(self, word: int) -> int:
        return int(self.words[word // WORD])

    def _set(self, word: int, value: int) -> None:
        self.words[word // WORD] = value


def calls(comm: shmcoll.Communicator, size: int) -> dict[str, Callable[[], object]]:
    """The calls for which each rank stages about `size` bytes, except for what it keeps itself."""
    n, me = comm.size, comm.rank
    x, out = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    part, all_of = np.zeros(size // n, np.uint8), np.zeros(size // n * n, np.uint8)
    pairs = [(r, (r + 1) % n) for r in range(n)]
    return {
        "broadcast": lambda: comm.broadcast(x),
        "all_gather": lambda: comm.all_gather(part, out=all_of),
        "gather": lambda: comm.gather(part, out=all_of if me == 0 else None),
        "scatter": lambda: comm.scatter(all_of if me == 0 else None, out=part),
        "all_to_all": lambda: comm.all_to_all(all_of, out=out[: all_of.size]),
        "collective_permute": lambda: comm.collective_permute(x, pairs, out=out),
        "all_reduce": lambda: comm.all_reduce(x, out=out),
        "reduce": lambda: comm.reduce(x, out=out if me == 0 else None),
        "reduce_scatter": lambda: comm.reduce_scatter(all_of, out=part),
    }


def measure(comm: shmcoll.Communicator, ways: Ways, call: Callable[[], object], seconds: float, rounds: int) -> list:
    """Return the microseconds of a call in each way, medians."""
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    call()
    began = time.perf_counter()
    call()
    number = comm.broadcast(np.array([max(4, int(seconds / (time.perf_counter() - began)))]))[0]
    for _ in range(rounds):
        for way, told in times.items():
            comm.barrier()
            ways.take(way)
            call()
            comm.barrier()
            began = time.perf_counter()
            for _ in range(number):
                call()
            told.append((time.perf_counter() - began) / number * 1e6)
            ways.leave(way)
    return [statistics.median(told) for told in times.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("collective", nargs="*")
    parser.add_argument("--quick", action="store_true", help="short, to see that it works")
    given = parser.parse_args()
    comm = shmcoll.init()
    ways = Ways(comm)
    if comm.rank == 0:
        print(f"# {comm.size} ranks, us: {', '.join(WAYS)}")
    for size in (16 << 10,) if given.quick else (16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20):
        for name, call in calls(comm, size).items():
            if not given.collective or name in given.collective:
                found = measure(comm, ways, call, 1e-4 if given.quick else 2e-3, 2 if given.quick else 21)
                if comm.rank == 0:
                    print(f"{name:<20}{size >> 10:>6}K" + "".join(f"{took:>12.2f}" for took in found), flush=True)


main()
