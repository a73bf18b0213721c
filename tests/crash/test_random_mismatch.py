"""Random pairs of calls. Those that differ: `CollectiveMismatch` on all ranks in the same words. Equal ones: never.

One job tries many pairs, each in a group of its own: a mismatch ends that group and leaves its members to the next.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shmcoll.communicator.plans import OPERATIONS as PLANS
from shmcoll.errors import CollectiveMismatch

pytestmark = pytest.mark.slow

RANKS = 3
DTYPES = ("int32", "int64", "float32", "float64", "uint8", "float16", "complex64")
REDUCTIONS = ("sum", "prod", "min", "max")
#: beside the header, in a cell, in several rounds; those of one row have the same size
SHAPES = (((6,), (2, 3), (3, 2), (1, 6)), ((12,), (3, 4)), ((3000,), (3, 1000)), ((150_000,), (3, 50_000), (150, 1000)))
PAIRS = ([(0, 1)], [(0, 1), (1, 0)], [(2, 1)], [])
COUNTS = ([1, 2, 3], [3, 2, 1], [6, 0, 0], [2, 2, 2])

ALGORITHMS = (None, "flat", "ring", "cells")
RUNNING = (None, "flat", "chain")
PERIODS = (True, False)

#: how a rank makes a call; it is the same call
NOW, LATER, PLANNED = range(3)

Call = dict[str, Any]


class Maker:
    """The collectives of a group, made in one of these ways; the last only where there is such a plan."""

    def __init__(self, comm: Any, way: int):
        self.comm = comm
        self.rank = comm.rank
        self._way = way

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def make(*args: Any, **keywords: Any) -> Any:
            has_plan = name in PLANS and not name.endswith("_v")  # whose plans need an out
            if self._way == PLANNED and has_plan and not (args and isinstance(args[0], list)):
                return self.comm.plan(name, *args, **keywords)()
            if self._way == LATER and name not in ("split", "views"):
                return getattr(self.comm, name)(*args, **keywords, async_op=True).wait()
            return getattr(self.comm, name)(*args, **keywords)

        return make


def scatter(comm: Maker, call: Call) -> Any:
    x = [array(call)] * RANKS if comm.rank == call["root"] else None
    return comm.scatter(x, call["root"], out=array(call))


def scatter_v(comm: Maker, call: Call) -> Any:
    given = {"x": np.ones(3, call["dtype"]), "send_counts": [1] * RANKS} if comm.rank == call["root"] else {"x": None}
    return comm.scatter_v(**given, root=call["root"], out=np.empty(1, call["dtype"]))


def array(call: Call) -> np.ndarray:
    return np.ones(call["shape"], call["dtype"])


def short(call: Call) -> np.ndarray:
    return np.ones(6, call["dtype"])


#: operation -> what belongs to the call, and the call
OPERATIONS: dict[str, tuple[tuple[str, ...], Callable[[Maker, Call], Any]]] = {
    "barrier": ((), lambda comm, call: comm.barrier()),
    "all_reduce": (
        ("dtype", "shape", "op", "algorithm"),
        lambda comm, call: comm.all_reduce(array(call), call["op"], algorithm=call["algorithm"]),
    ),
    "reduce": (
        ("dtype", "shape", "op", "root", "algorithm"),
        lambda comm, call: comm.reduce(array(call), call["root"], call["op"], algorithm=call["algorithm"]),
    ),
    "reduce_scatter": (
        ("dtype", "shape", "op", "algorithm"),
        lambda comm, call: comm.reduce_scatter([array(call)] * RANKS, call["op"], algorithm=call["algorithm"]),
    ),
    "reduce_scatter_v": (
        ("dtype", "counts", "op"),
        lambda comm, call: comm.reduce_scatter_v(short(call), call["counts"], call["op"]),
    ),
    "scan": (
        ("dtype", "shape", "op", "running"),
        lambda comm, call: comm.scan(array(call), call["op"], algorithm=call["running"]),
    ),
    "exscan": (
        ("dtype", "shape", "op", "running"),
        lambda comm, call: comm.exscan(array(call), call["op"], algorithm=call["running"]),
    ),
    "broadcast": (("dtype", "shape", "root"), lambda comm, call: comm.broadcast(array(call), call["root"])),
    "gather": (("dtype", "shape", "root"), lambda comm, call: comm.gather(array(call), call["root"])),
    "all_gather": (("dtype", "shape"), lambda comm, call: comm.all_gather(array(call))),
    "scatter": (("root",), scatter),  # out is no part of the call: where it does not fit, all get a ValueError
    "all_to_all": (("dtype", "shape"), lambda comm, call: comm.all_to_all([array(call)] * RANKS)),
    "all_to_all_v": (("dtype",), lambda comm, call: comm.all_to_all_v(short(call), [2] * RANKS)),
    "gather_v": (("dtype", "root"), lambda comm, call: comm.gather_v(short(call), call["root"])),
    "scatter_v": (("root",), scatter_v),
    "all_gather_v": (("dtype",), lambda comm, call: comm.all_gather_v(short(call))),
    "collective_permute": (
        ("dtype", "shape", "pairs"),
        lambda comm, call: comm.collective_permute(array(call), call["pairs"]),
    ),
    "exchange": (
        ("dtype", "periods"),
        lambda comm, call: comm.comm.grid(RANKS, call["periods"]).exchange(short(call)),
    ),
    "split": ((), lambda comm, call: comm.split(0).close()),
    "views": ((), lambda comm, call: comm.views(comm.comm.zeros(call["shape"], call["dtype"]))),
    "broadcast_object": (("root",), lambda comm, call: comm.broadcast_object(call, call["root"])),
    "gather_object": (("root",), lambda comm, call: comm.gather_object(call, call["root"])),
    "all_gather_object": ((), lambda comm, call: comm.all_gather_object(call)),
    "scatter_object": (("root",), lambda comm, call: comm.scatter_object([call] * RANKS, call["root"])),
}


def draw_call(draw: random.Random, operation: str) -> Call:
    return {
        "operation": operation,
        "dtype": draw.choice(DTYPES),
        "shape": draw.choice(draw.choice(SHAPES)),
        "op": draw.choice(REDUCTIONS),
        "root": draw.randrange(RANKS),
        "pairs": draw.choice(PAIRS),
        "counts": draw.choice(COUNTS),
        "algorithm": draw.choice(ALGORITHMS) if draw.random() < 0.3 else None,
        "running": draw.choice(RUNNING) if draw.random() < 0.3 else None,
        "periods": draw.choice(PERIODS),
    }


def changed(draw: random.Random, call: Call) -> Call:
    """Another call, unlike this one in one thing that belongs to it."""
    what = draw.choice(("operation", *OPERATIONS[call["operation"]][0]))
    if what == "operation":
        return call | {what: draw.choice([name for name in OPERATIONS if name != call[what]])}
    same_size = next(row for row in SHAPES if call["shape"] in row)
    while True:
        other = draw_call(draw, call["operation"])
        if draw.random() < 0.5:
            other["shape"] = draw.choice(same_size)
        if other[what] != call[what]:
            return call | {what: other[what]}


def try_pairs(comm: Any, seed: int, pairs: int) -> list[tuple[str, str]]:
    """What came of each pair on this rank, the text of the mismatch or none; and what was called, if unlike."""
    draw, told = random.Random(seed), []  # the same on all ranks
    for _ in range(pairs):
        call = draw_call(draw, draw.choice(list(OPERATIONS)))
        differs = draw.random() < 0.8
        other = changed(draw, call) if differs else dict(call)
        odd = draw.sample(range(RANKS), draw.randrange(1, RANKS))
        way = [draw.choices((NOW, LATER, PLANNED), (3, 1, 1))[0] for _ in range(RANKS)][comm.rank]
        mine = other if comm.rank in odd else call
        group, text = comm.split(0), ""
        try:
            OPERATIONS[mine["operation"]][1](Maker(group, way), mine)
            group.barrier()  # a rank that has run ahead learns of it here
        except CollectiveMismatch as error:
            text = str(error)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        group.close()
        told.append((text, f"ranks {odd} {other}, others {call}" if differs else ""))
    return told


def check(results: list[list[tuple[str, str]]], seed: int) -> tuple[int, int]:
    """Fail with the first pair that was judged wrongly; returns how many pairs differed, and how many were equal."""
    differing = 0
    for number, told in enumerate(zip(*results, strict=True)):
        what = told[0][1]
        texts = {text for text, _ in told}
        assert len(texts) == 1, f"seed {seed}, pair {number}: {what}: not the same words: {texts}"
        (text,) = texts
        assert bool(what) == text.startswith("the ranks disagree in operation #1: "), f"seed {seed}, {what}: {text!r}"
        differing += bool(what)
    return differing, len(results[0]) - differing


def test_who_differs_is_told_who_does_not_is_not(ranks, seed):
    differing, equal = check(ranks(RANKS, try_pairs, seed, 150), seed)
    assert differing > 100
    assert equal > 10


@pytest.mark.stress
def test_who_differs_is_told_at_length(ranks, seed):
    differing = equal = 0
    for part in range(10):
        found = check(ranks(RANKS, try_pairs, seed + part, 2000, deadline=600.0), seed + part)
        differing, equal = differing + found[0], equal + found[1]
    print(
        f"figure: {differing:,} random pairs of calls that differ: CollectiveMismatch on all {RANKS} ranks in the same "
        f"words; {equal:,} pairs that do not: none"
    )
