"""Every operator of mindspore.ops against a numpy model: on the world and on groups, arrays and Tensors.

Each job runs the whole table of cases, each on the world and on the group of the ranks of this rank's parity.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import shmcoll.mindspore as ms
from shmcoll.mindspore import Tensor, communication, ops

DTYPES = (np.float32, np.int32, np.float16, ml_dtypes.bfloat16, np.int8, np.float64)


class Group:
    """The ranks of one group, and what each of them passes: `given[i]` is that of rank i of the group."""

    def __init__(self, name: str, rank: int, size: int, seed: int):
        self.name, self.rank, self.size = name, rank, size
        self._rng = np.random.default_rng(seed)

    def draw(self, shape: tuple[int, ...], dtype: Any, end: int = 4) -> list[np.ndarray]:
        """Numbers from 1 to `end` - 1. Their sums, and products of 1 and 2, are exact in every type."""
        return [self._rng.integers(1, end, shape).astype(dtype) for _ in range(self.size)]

    def counts(self) -> np.ndarray:
        """Any counts [i, j], from rank i to rank j; the last rank gets nothing."""
        counts = self._rng.integers(0, 4, (self.size, self.size))
        counts[:, -1] = 0
        return counts


Case = Callable[[Group, Any], tuple[Callable[..., Any], tuple[Any, ...], Any]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def totals(xs: list[np.ndarray], op: str) -> np.ndarray:
    both = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op]
    found = xs[0]
    for x in xs[1:]:
        found = both(found, x)
    return found


@case
def all_reduce(g, dtype):
    xs, names = g.draw((2, 3), dtype, end=3), ("sum", "max", "min", "prod")
    made = [ops.AllReduce(op, g.name) for op in names]
    return lambda x: tuple(one(x) for one in made), (xs[g.rank],), tuple(totals(xs, op) for op in names)


@case
def reduce(g, dtype):
    xs, root = g.draw((3,), dtype), g.size - 1
    return ops.Reduce(root, "max", g.name), (xs[g.rank],), totals(xs, "max") if g.rank == root else np.zeros(1, dtype)


@case
def reduce_scatter(g, dtype):
    xs = g.draw((2 * g.size, 2), dtype)
    return ops.ReduceScatter(group=g.name), (xs[g.rank],), totals(xs, "sum")[2 * g.rank : 2 * g.rank + 2]


@case
def reduce_scatter_v(g, dtype):
    sizes = g.counts()[0]
    xs = g.draw((int(sizes.sum()),), dtype, end=3)
    begin = int(sizes[: g.rank].sum())
    mine = totals(xs, "prod")[begin : begin + sizes[g.rank]]
    return ops.ReduceScatterV("prod", g.name), (xs[g.rank], sizes.tolist()), mine if mine.size else np.zeros((), dtype)


@case
def all_gather(g, dtype):
    xs = g.draw((2, 1, 2), dtype)
    return ops.AllGather(g.name), (xs[g.rank],), np.concatenate(xs)


@case
def all_gather_v(g, dtype):
    sizes = g.counts()[:, 0]
    xs = [g.draw((int(size),), dtype)[0] for size in sizes]
    whole = np.concatenate(xs)
    return ops.AllGatherV(g.name), (xs[g.rank], tuple(sizes.tolist())), whole if whole.size else np.zeros((), dtype)


@case
def broadcast(g, dtype):
    xs, ys = g.draw((2, 2), dtype), g.draw((), dtype)
    return ops.Broadcast(g.size - 1, g.name), ((xs[g.rank], ys[g.rank]),), (xs[-1], ys[-1])


@case
def collective_scatter(g, dtype):
    xs = g.draw((3 * g.size, 2), dtype)
    return ops.CollectiveScatter(g.size - 1, g.name), (xs[g.rank],), xs[-1][3 * g.rank : 3 * g.rank + 3]


@case
def collective_gather(g, dtype):
    xs = g.draw((2, 2), dtype)
    return ops.CollectiveGather(0, g.name), (xs[g.rank],), np.zeros(1, dtype) if g.rank else np.concatenate(xs)


@case
def all_to_all(g, dtype):
    xs = g.draw((2, 2 * g.size), dtype)
    blocks = [np.split(x, g.size, 1)[g.rank] for x in xs]
    return ops.AlltoAll(g.size, -1, 0, g.name), (xs[g.rank],), np.concatenate(blocks)


@case
def all_to_all_v(g, dtype):
    counts, sent, wanted = _blocks(g, dtype, block=2)
    return ops.AlltoAllV(g.name, 2), (sent, counts[g.rank].tolist(), Tensor(counts[:, g.rank])), wanted


@case
def all_to_all_v_c(g, dtype):
    counts, sent, wanted = _blocks(g, dtype, block=3)
    return ops.AlltoAllVC(g.name, 3), (sent, Tensor(counts)), wanted


@case
def all_to_all_v_c_transposed(g, dtype):
    counts, sent, wanted = _blocks(g, dtype, block=1)
    return ops.AlltoAllVC(g.name, 1, True), (sent, counts.T.reshape(-1).tolist()), wanted


def _blocks(g, dtype, block):
    counts = g.counts()
    blocks = [[g.draw((int(count) * block,), dtype)[0] for count in row] for row in counts]
    wanted = np.concatenate([row[g.rank] for row in blocks])
    return counts, np.concatenate(blocks[g.rank]), wanted if wanted.size else np.zeros((), dtype)


@case
def neighbor_exchange(g, dtype):
    """To the rank after this one two tensors, and one to this rank itself."""
    after, before = (g.rank + 1) % g.size, (g.rank - 1) % g.size
    xs, ys, zs = g.draw((2, 3), dtype), g.draw((2, 2), dtype), g.draw((1,), dtype)
    shapes = ([2, 3], [2, 2], [1])
    made = ops.NeighborExchange(
        [after, after, g.rank], [before, before, g.rank], shapes, shapes, ms.dtype.BY_NUMPY[np.dtype(dtype)], g.name
    )
    return made, ((xs[g.rank], ys[g.rank], zs[g.rank]),), (xs[before], ys[before], zs[g.rank])


@case
def neighbor_exchange_v2(g, dtype):
    """Two rows up and one column to the right, along a line of ranks; on a group of 4, a square and its diagonals."""
    xs = g.draw((1, 2, 3, 4), dtype)
    if g.size < 4:
        up, down = (g.rank - 1 if g.rank else -1), (g.rank + 1 if g.rank + 1 < g.size else -1)
        neighbors = [up, -1, -1, -1, down, -1, -1, -1]
        made = ops.NeighborExchangeV2(neighbors, [1, 2, 0, 0], neighbors, [2, 1, 0, 0], "NCHW", g.name)
        wanted = np.zeros((1, 2, 6, 4), dtype)
        wanted[:, :, 2:5] = xs[g.rank]
        if up >= 0:
            wanted[:, :, :2] = xs[up][:, :, 1:]
        if down >= 0:
            wanted[:, :, 5:] = xs[down][:, :, :1]
        return made, (xs[g.rank],), wanted
    row, column = divmod(g.rank, 2)  # ranks 4 and more have no neighbours
    steps = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))
    places = [(row + i, column + j) for i, j in steps]
    inside = g.rank < 4
    neighbors = [2 * i + j if inside and 0 <= i < 2 and 0 <= j < 2 else -1 for i, j in places]
    made = ops.NeighborExchangeV2(neighbors, [1, 1, 1, 1], neighbors, [1, 1, 1, 1], "NCHW", g.name)
    wanted = np.zeros((1, 2, 5, 6), dtype)
    wanted[:, :, 1:4, 1:5] = xs[g.rank]
    if inside:
        whole = np.zeros((1, 2, 8, 10), dtype)
        whole[:, :, 1:7, 1:9] = np.block([[xs[0], xs[1]], [xs[2], xs[3]]])
        wanted = whole[:, :, 3 * row : 3 * row + 5, 4 * column : 4 * column + 6]
    return made, (xs[g.rank],), wanted


@case
def send_and_receive(g, dtype):
    """Around the ring, two tags in the other order."""
    after, before = (g.rank + 1) % g.size, (g.rank - 1) % g.size
    xs, ys = g.draw((2, 2), dtype), g.draw((3,), dtype)
    named = ms.dtype.BY_NUMPY[np.dtype(dtype)]

    def run(x, y):
        sent = ops.Send(1, after, g.name)(x), ops.Send(2, after, g.name)(y)
        got = ops.Receive(2, before, [3], named, g.name)(), ops.Receive(1, before, (2, 2), named, g.name)(x)
        return (*sent, *(one.asnumpy() if type(x) is np.ndarray else one for one in got))

    return run, (xs[g.rank], ys[g.rank]), (xs[g.rank], ys[g.rank], ys[before], xs[before])


@case
def batch_isend_irecv(g, dtype):
    after, before = (g.rank + 1) % g.size, (g.rank - 1) % g.size
    xs, named = g.draw((2, 2), dtype), ms.dtype.BY_NUMPY[np.dtype(dtype)]
    made = ops.BatchISendIRecv(("irecv", "isend"), [before, after], [[2, 2]], (named,), g.name)
    return made, ((xs[g.rank],),), (xs[before], np.zeros((), np.float32))


@case
def barrier(g, dtype):
    return lambda x: (ops.Barrier(g.name)(), x)[1], (np.ones(1, dtype),), np.ones(1, dtype)


def as_kind(value: Any, kind: type) -> Any:
    """The arrays in the arguments of a call as tensors of one kind."""
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        return tuple(as_kind(one, kind) for one in value)
    return Tensor(value) if isinstance(value, np.ndarray) and kind is Tensor and type(value) is np.ndarray else value


def differs(got: Any, wanted: Any, kind: type) -> bool:
    if isinstance(wanted, tuple):
        return type(got) is not tuple or any(differs(*pair, kind) for pair in zip(got, wanted, strict=True))
    plain = np.asarray(got).view(np.ndarray)
    return (type(got), plain.dtype, plain.shape) != (kind, wanted.dtype, wanted.shape) or bool((plain != wanted).any())


def wrong(comm, seed) -> list[str]:
    communication.init()
    world = communication.GlobalComm.WORLD_COMM_GROUP
    members = list(range(comm.rank % 2, comm.size, 2))
    communication.create_group(f"of parity {comm.rank % 2}", members)
    found = []
    for group, ranks in ((world, list(range(comm.size))), (f"of parity {comm.rank % 2}", members)):
        for i, (name, make) in enumerate(CASES.items()):
            for kind in (np.ndarray, Tensor):
                g = Group(group, ranks.index(comm.rank), len(ranks), seed + i)
                call, arguments, expected = make(g, DTYPES[i % len(DTYPES)])
                given = tuple(as_kind(one, kind) for one in arguments)
                got = call(*given)
                if differs(got, expected, kind):
                    found.append(f"{name} on {group} with {kind.__name__}: {got!r} instead of {expected!r}")
    return found


@pytest.mark.parametrize("n", [1, 2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_operators_equal_their_models(ranks, seed, n):
    assert {name.replace("_", "") for name in CASES} >= {
        name.lower() for name in ops.__all__ if name not in ("ReduceOp", "Send", "Receive", "operations")
    }
    assert ranks(n, wrong, seed % 1000) == [[]] * n
