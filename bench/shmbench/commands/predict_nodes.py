"""The command `shmbench predict FILE --over NODES`: the times of many nodes, by the cost formulas of `shmcoll/nodes`.

From FILE, as without `--over`, it reads the times within a node: a sync, copying and adding. From NODES, a file of
`shmbench compare --nodes 2 -n 2`, it reads the times between two nodes, from flat MPI: a message (the barrier, which is
one message each way) and the bandwidth of a link (the longest collective_permute). First it prints the formulas beside
the times of shmcoll in NODES, with these figures. Then it computes them for more nodes, with the links that the options
describe.

What cannot be measured with two nodes is assumed, and printed: the ranks of a node, its link, how long a leader works
for one more message, and what a call costs that goes in Python.

The formulas are those of the docstrings in `shmcoll/nodes`: N nodes of r ranks, S bytes, A the time of a message, o the
work for one more, B bytes per second of a node's link each way. The switches of a network do not appear: each node can
use all of its link, whoever it talks to.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from shmbench.cli.sizes import microseconds, short_size
from shmbench.commands import predict

SIZES = (8, 4 << 10, 64 << 10, 4 << 20, 64 << 20)
NODES = (2, 4, 16, 64, 256, 1024)
OFFER, ROWS, TOLD = 64 << 10, 256 << 10, 1 << 20  # limits of an opening: `shmcoll/nodes/native/state.py`
SEGMENT, WHOLE, EXCHANGED = 1 << 20, 256 << 10, 16 << 10  # of long calls: `rails.py` and `layout.py` beside it
BROUGHT, FOLLOWING, FEW, PARTIAL = 240, 64 << 10, 16, 32 << 10

Times = dict[tuple[str, int], float]


@dataclass(frozen=True)
class Cluster:
    """Nodes of the same kind. Times are in seconds. ranks: of a node. message: A; more: o; link: B; python: of a call
    that is not made in native code."""

    node: predict.Machine
    nodes: int
    ranks: int
    message: float
    more: float
    link: float
    python: float

    def exchange(self, size: float) -> float:
        """Return the time in which the leader of a node sends a message to each other one."""
        return self.message + (self.nodes - 2) * self.more + (self.nodes - 1) * size / self.link

    def meet(self) -> float:
        """Return the time of a sync of the ranks of a node."""
        return self.node.meet(self.ranks) if self.ranks > 1 else 0.0

    def within(self, formula: Callable[[predict.Machine, int, int], float], size: float) -> float:
        """Return the time of a collective of the ranks of a node."""
        return formula(self.node, self.ranks, math.ceil(size)) if self.ranks > 1 and size > 0 else 0.0

    @property
    def row(self) -> int:
        """The bytes that each rank can bring to an opening that gives all ranks those of all."""
        return max(min(ROWS // self.ranks, TOLD // (self.nodes * self.ranks)), BROUGHT) // 8 * 8

    def tree(self) -> int:
        return math.ceil(math.log2(self.nodes))


def opening(c: Cluster, offered: float = 0, told: float = 0) -> float:
    """Return the time of an opening: a sync of the node, a message to each other leader, a sync with the result."""
    return 2 * c.meet() + c.node.copy(offered) + c.exchange(offered) + c.node.copy(told)


def rows(c: Cluster, size: int) -> float:
    """Return the time of an opening in which each rank brings `size` bytes, which all ranks get."""
    return opening(c, c.ranks * size, c.nodes * c.ranks * size)


def barrier(c: Cluster, _size: int) -> float:
    return opening(c)


def all_reduce(c: Cluster, size: int) -> float:
    if size <= (c.row if c.ranks == 1 else BROUGHT):
        return rows(c, size) + (c.nodes * c.ranks - 1) * c.node.add(size)
    if size <= max(c.row, PARTIAL):
        return c.within(predict.all_reduce, size) + opening(c, size, size) + (c.nodes - 1) * c.node.add(size)
    whole = c.nodes == 2 and min(size, SEGMENT) / c.ranks <= WHOLE
    sums = (c.nodes - 1) * c.node.add(size / c.ranks if whole else size / (c.ranks * c.nodes))
    rounds = math.ceil(size / SEGMENT) * (1 if whole else 2)
    messages = rounds * c.exchange(0) + 2 * (c.nodes - 1) / c.nodes * size / c.link
    return opening(c) + max(messages, c.within(predict.all_reduce, size)) + sums


def broadcast(c: Cluster, size: int) -> float:
    if size <= FOLLOWING // max(c.nodes - 1, 1):
        return opening(c, max(size, BROUGHT), max(size, BROUGHT))
    way = c.tree() * (c.message + size / c.link)
    return opening(c) + c.within(predict.broadcast, size) + way + c.within(predict.all_gather, size)


def all_gather(c: Cluster, size: int) -> float:
    own = size / (c.nodes * c.ranks)
    if own <= c.row:
        return rows(c, math.ceil(own))
    shared = c.nodes * c.within(predict.all_gather, c.ranks * own)
    return opening(c) + c.exchange(c.ranks * own) + shared


def all_to_all(c: Cluster, size: int) -> float:
    block = size / (c.nodes * c.ranks)
    if size <= min(c.row, EXCHANGED):
        return rows(c, size) + c.node.copy(size)
    if block * c.ranks**2 <= OFFER and (c.nodes - 1) * c.ranks > FEW:
        return c.python + opening(c, block * c.ranks**2) + 2 * c.ranks * c.node.copy(size)
    pairs = c.message + ((c.nodes - 1) * c.ranks - 1) * c.more + c.ranks * size * (c.nodes - 1) / c.nodes / c.link
    return opening(c) + pairs + c.within(predict.all_to_all, size / c.nodes)


FORMULAS: dict[str, Callable[[Cluster, int], float]] = {
    f.__name__: f for f in (barrier, all_reduce, broadcast, all_gather, all_to_all)
}


def report(machine: predict.Machine, given: argparse.Namespace) -> Iterator[str]:
    """Print the formulas beside what two nodes have measured, and for more nodes. Raises `ValueError` if the file does
    not hold what is needed."""
    times, message, link = _read(given.over)
    measured = Cluster(predict.alone(machine), 2, 1, message, 0, link, given.python * 1e-6)
    yield (
        f"# between 2 nodes, from flat MPI: a message {microseconds(message * 1e6)} us, a link {link / 1e9:.2f} GB/s; "
        f"a call in Python {given.python:g} us"
    )
    yield "# measured over predicted, 2 nodes of 1 rank"
    yield f"# {'':<14}" + "".join(f"{short_size(size):>10}" for size in SIZES)
    for name, formula in FORMULAS.items():
        sizes = (0,) if name == "barrier" else SIZES
        found = (times[name, size] / formula(measured, size) if (name, size) in times else None for size in sizes)
        cells = ["" if one is None else f"{one:.2f}" for one in found]
        if any(cells):
            yield f"  {name:<14}" + "".join(f"{cell:>10}" for cell in cells)
    more = replace(
        measured,
        node=machine,
        ranks=given.ranks,
        message=given.latency * 1e-6,
        more=given.more * 1e-6,
        link=given.link * 1e9,
    )
    yield "#"
    yield (
        f"# predicted, us: nodes of {given.ranks} ranks; a message {given.latency:g} us, each further one of a leader "
        f"{given.more:g} us, a link {given.link:g} GB/s each way"
    )
    yield f"# {'':<14}{'size':>8}" + "".join(f"{f'N={nodes}':>10}" for nodes in NODES)
    for name, formula in FORMULAS.items():
        for size in SIZES[:1] if name == "barrier" else SIZES:
            figures = [microseconds(formula(replace(more, nodes=nodes), size) * 1e6) for nodes in NODES]
            shown = "" if name == "barrier" else short_size(size)
            yield f"  {name:<14}{shown:>8}" + "".join(f"{figure:>10}" for figure in figures)


def _read(path: Path) -> tuple[Times, float, float]:
    """Return the times of shmcoll by collective and size, and from those of flat MPI the time of a message and the
    bandwidth of a link."""
    try:
        found = json.loads(path.read_text())
        nodes, ranks = found["nodes"], found["ranks"]
        ours, flat = (
            {(line["collective"], line["size"]): median(line[who]) for line in found["lines"]}
            for who in ("shmcoll", "flat")
        )
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"{path} is not what shmbench compare --nodes writes ({type(error).__name__}: {error})"
        ) from None
    if (nodes, ranks) != (2, 2):
        raise ValueError(f"{path} is of {ranks} ranks on {nodes} nodes: shmbench compare --nodes 2 -n 2 --json FILE")
    moved = [size for name, size in flat if name == "collective_permute"]
    if ("barrier", 0) not in flat or not moved:
        raise ValueError(f"{path} needs barrier and collective_permute: shmbench compare --nodes 2 -n 2 --json FILE")
    return ours, flat["barrier", 0], max(moved) / flat["collective_permute", max(moved)]
