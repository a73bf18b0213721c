"""The command `shmbench predict`: the times of a machine with many cores, by the cost formulas of the algorithms.

From a file of `shmbench compare` it reads the times of one core: a sync (the barrier of 2 ranks), and copying and
adding arrays of each size (the limits `memcpy` and `add`). First it prints the formulas beside the times of shmcoll in
the same file. Then it computes them for more ranks, one per core, with the ranks of a socket side by side.

What cannot be measured on a small machine is assumed, and printed: the memory bandwidth of a socket, how much longer a
cache line takes between sockets, and the cost of reading one more rank's header, as a part of a sync.

The formulas are those of the docstrings in `shmcoll/collectives`: n ranks, S bytes, a for a sync, b for a copied byte,
g for a reduced byte. They are printed beside the least time in which the memory of all sockets can move the data.
"""

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from shmbench.cli.flags import Parser, at_least
from shmbench.cli.sizes import microseconds

CELL = 256 << 10
FLAT, SLICE = 8 << 10, 128 << 10  # the default thresholds of shmcoll
SIZES = (8, 16 << 10, 256 << 10, 4 << 20, 64 << 20)
RANKS = (2, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Machine:
    """A machine. Times are in seconds. copies, additions: bytes and time of one rank, and of two at the same time, by
    size."""

    sync: float
    copies: list[tuple[int, float]]
    additions: list[tuple[int, float]]
    sockets: int
    cores: int  # of a socket
    bandwidth: float  # of a socket's memory, bytes per second
    cache: float  # bytes that the caches of a socket hold
    far: float
    look: float

    def meet(self, n: int) -> float:
        """Return the time of a sync of n ranks, in which each reads the headers of all others."""
        return self.step(n) + (n - 2) * self.look * self.sync

    def step(self, n: int) -> float:
        """Return the time of a sync of two of n ranks, those that are farthest from each other."""
        return self.sync * (self.far if n > self.cores else 1)

    def copy(self, size: float) -> float:
        return _between(self.copies, size)

    def add(self, size: float) -> float:
        return _between(self.additions, size)

    def moved(self, n: int, size: float) -> float:
        """Return the least time in which memory can move this number of bytes, divided among the sockets of n ranks; 0
        if their caches hold the bytes."""
        sockets = min(self.sockets, math.ceil(n / self.cores))
        return size / (sockets * self.bandwidth) if size > sockets * self.cache else 0.0


def _between(known: list[tuple[int, float]], size: float) -> float:
    """Return the time of a size, from the bandwidths of the nearest sizes measured, which change slowly."""
    if size <= known[0][0]:
        return known[0][1] * size / known[0][0]
    for (small, short), (large, long) in pairwise(known):
        if size <= large:
            share = math.log(size / small) / math.log(large / small)
            return size * math.exp((1 - share) * math.log(short / small) + share * math.log(long / large))
    return known[-1][1] * size / known[-1][0]


def barrier(m: Machine, n: int, _size: int) -> float:
    return m.meet(n)


def barrier_in_two_levels(m: Machine, n: int, _size: int) -> float:
    """Return the time of a barrier that shmcoll does not have: about sqrt(n) ranks meet, then one rank of each such
    group, which then releases its group."""
    group = max(2, round(math.sqrt(n)))
    near = replace(m, far=1)
    return m.meet(n) if n < 8 else near.meet(group) + m.step(n) + (n / group - 2) * m.look * m.sync + near.step(group)


def all_reduce(m: Machine, n: int, size: int) -> float:
    if n * size <= 2 * FLAT:
        return m.meet(n) + m.copy(size) + (n - 1) * m.add(size)
    piece = min(SLICE, size / n)
    steps = math.ceil(size / piece)
    return max(
        m.meet(n) + steps * m.step(n) + 2 * m.copy(piece) * steps + m.add(piece) * steps, m.moved(n, 2 * n * size)
    )


def broadcast(m: Machine, n: int, size: int) -> float:
    if size <= CELL:
        return m.meet(n) + 2 * m.copy(size)
    return max(2 * m.meet(n) * math.ceil(size / CELL) + m.copy(size), m.moved(n, n * size))


def all_gather(m: Machine, n: int, size: int) -> float:
    own = size / n
    return max(m.meet(n) * math.ceil(own / CELL) + m.copy(own) + m.copy(size), m.moved(n, n * size))


def all_to_all(m: Machine, n: int, size: int) -> float:
    others = (n - 1) / n * size
    return max(m.meet(n) * math.ceil(size / CELL) + 2 * m.copy(others) + m.copy(size / n), m.moved(n, 2 * n * size))


FORMULAS: dict[str, Callable[[Machine, int, int], float]] = {
    f.__name__: f for f in (barrier, barrier_in_two_levels, all_reduce, broadcast, all_gather, all_to_all)
}


def main(argv: list[str]) -> int:
    parser = make_parser()
    given = parser.parse_args(argv)
    if given.over and given.ranks > given.sockets * given.cores:
        parser.error(f"--ranks {given.ranks}: a node has {given.sockets} sockets of {given.cores} cores")
    try:
        times = _read(given.file)
    except (OSError, ValueError) as error:
        print(f"shmbench predict: {error}", file=sys.stderr)
        return 2
    machine = Machine(
        times["barrier"][0],
        _without_the_call(times["memcpy"]),
        _without_the_call(times["add"]),
        given.sockets,
        given.cores,
        given.bandwidth * 1e9,
        given.cache << 20,
        given.far,
        given.look,
    )
    if given.over is None:
        print(*_check(machine, times), *_predict(machine, given), sep="\n")
        return 0
    from shmbench.commands import predict_nodes

    try:
        print(*predict_nodes.report(machine, given), sep="\n")
    except (OSError, ValueError) as error:
        print(f"shmbench predict: {error}", file=sys.stderr)
        return 2
    return 0


def _read(path: Path) -> dict[str, dict[int, float]]:
    """Return seconds by size, for each collective of shmcoll and for the limits: the medians of all results in the
    file."""
    from shmbench.report.curves import read

    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for table in read(path):
        for row in table["rows"]:
            timing = row["out_of_place"] or row["in_place"]
            if table["library"] == "shmcoll" and table["ranks"] == 2 and timing:
                found[table["collective"]][row["size"]].append(timing["time"] / 1e6)
    medians = {name: {size: median(times) for size, times in rows.items()} for name, rows in found.items()}
    missing = [name for name in ("barrier", "memcpy", "add") if name not in medians]
    if missing:
        raise ValueError(f"{path} has no {missing[0]} of 2 ranks: shmbench compare barrier all_reduce --json FILE")
    return medians


def _without_the_call(times: dict[int, float]) -> list[tuple[int, float]]:
    """Return times by size without the time of calling numpy, which is the whole time of the smallest size."""
    call, *longer = sorted(times.items())
    return [(size, time - call[1]) for size, time in longer]


def _check(machine: Machine, times: dict[str, dict[int, float]]) -> Iterator[str]:
    yield "# measured over predicted, 2 ranks"
    yield f"# {'':<22}" + "".join(f"{_short(size):>10}" for size in SIZES)
    for name, formula in FORMULAS.items():
        rows = times.get(name, {})
        cells = [f"{rows[size] / formula(alone(machine), 2, size):.2f}" if size in rows else "" for size in SIZES]
        if any(cells):
            yield f"  {name:<22}" + "".join(f"{cell:>10}" for cell in cells)


def alone(machine: Machine) -> Machine:
    """Return the machine of the measurement: both ranks share a socket, and the limits have been measured on its
    memory."""
    return replace(machine, sockets=1, cores=2, cache=math.inf, far=1)


def _predict(machine: Machine, given: argparse.Namespace) -> Iterator[str]:
    yield "#"
    yield (
        f"# predicted, us: {given.sockets} sockets of {given.cores} cores, {given.bandwidth:g} GB/s, {given.cache} MiB "
        f"of cache; a line between sockets takes {given.far:g} times as long, a header more {given.look:g} of a sync"
    )
    yield f"# {'':<22}{'size':>8}" + "".join(f"{f'n={n}':>10}" for n in RANKS)
    for name, formula in FORMULAS.items():
        for size in SIZES[:1] if name.startswith("barrier") else SIZES:
            figures = [microseconds(formula(machine, n, size) * 1e6) for n in RANKS if n <= given.sockets * given.cores]
            yield f"  {name:<22}{'' if name.startswith('barrier') else _short(size):>8}" + "".join(
                f"{f:>10}" for f in figures
            )


def _short(size: int) -> str:
    return f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K" if size >= 1 << 10 else f"{size}"


def _positive(text: str) -> float:
    if (value := float(text)) <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench predict",
        description="Put more ranks into the cost formulas of the algorithms than this machine has cores for.",
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="what shmbench compare --json has written, for 2 ranks")
    add("--sockets", type=at_least(1), default=2, metavar="N", help="sockets (2)")
    add("--cores", type=at_least(1), default=128, metavar="N", help="cores of a socket, one a rank (128)")
    add("--bandwidth", type=_positive, default=300, metavar="GB/S", help="of the memory of a socket (300)")
    add("--cache", type=at_least(1), default=256, metavar="MIB", help="of a socket (256)")
    add("--far", type=_positive, default=3, metavar="X", help="a line between sockets takes so much longer (3)")
    nodes = parser.add_argument_group("several nodes")
    nodes.add_argument("--over", type=Path, metavar="NODES",
        help="predict over nodes: what shmbench compare --nodes 2 -n 2 --json has written")  # fmt: skip
    for option, kind, default, unit, text in (
        ("--ranks", at_least(1), 16, "N", "ranks of a node"),
        ("--latency", _positive, 2, "US", "of a message between two nodes"),
        ("--more", _positive, 0.3, "US", "work of a leader for each further message"),
        ("--link", _positive, 25, "GB/S", "of a node's link, each way"),
        ("--python", _positive, 100, "US", "of a call that is not made in native code"),
    ):
        nodes.add_argument(option, type=kind, default=default, metavar=unit, help=f"{text} ({default})")
    add("--look", type=_positive, default=0.25, metavar="X", help="one more header, as part of a sync (0.25)")
    return parser
