"""Objects on real ranks: nested ones, short and long frames, buffers of every kind, one object or as many as ranks."""

import asyncio

import numpy as np
import pytest

from tests.support.drawn_objects import drawn, same
from tests.support.patience import PATIENCE
from tests.support.suite import judge, run_cases


def case(seed: int, n: int, operation: str):
    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        objects, root, later = [drawn(rng) for _ in range(n)], int(rng.integers(n)), bool(rng.random() < 0.2)
        mine, wanted = objects[comm.rank], objects
        if operation == "broadcast_object":
            got = comm.broadcast_object(mine, root, async_op=later)
            wanted = objects[root]
        elif operation == "gather_object":
            got = comm.gather_object(mine, root, async_op=later)
            wanted = objects if comm.rank == root else None
        elif operation == "all_gather_object":
            got = comm.all_gather_object(mine, async_op=later)
        else:
            got = comm.scatter_object(objects if comm.rank == root else None, root, async_op=later)
            wanted = mine
        got = got.wait() if later else got
        return "" if same(got, wanted) else f"got {got!r:.200}, wanted {wanted!r:.200}"

    return f"{operation} {n=} {seed=}", check


OPERATIONS = ("broadcast_object", "gather_object", "all_gather_object", "scatter_object")


def run(comm, seed: int, factor: int):
    rng = np.random.default_rng(seed)
    cases = [case(int(rng.integers(1 << 32)), comm.size, op) for _ in range(25 * factor) for op in OPERATIONS]
    return run_cases(comm, cases)


def test_objects(ranks, n, seed, factor):
    judge(ranks(n, run, seed, factor, deadline=PATIENCE * factor), at_least=100)


def what_arrives(comm) -> list:
    """Objects that arrive are the rank's own: to be written to, apart from each other, kept by themselves."""
    sent = [np.arange(5_000), np.zeros(10)] if comm.rank == 0 else "not looked at"
    got = comm.broadcast_object(sent)
    rows = comm.all_gather_object(np.full(5_000, comm.rank))
    got[0][:] += comm.rank
    rows[0][:] = 7
    comm.barrier()
    return [got is sent, int(got[0][1]), got[1].flags.writeable, int(rows[1][0])]


def test_what_arrives_can_be_written(ranks):
    assert ranks(2, what_arrives) == [[True, 1, True, 1], [False, 2, True, 1]]


def refused(comm) -> list[str]:
    told = []
    for call in (
        lambda: comm.broadcast_object(lambda: 0, comm.rank),
        lambda: comm.gather_object(None, 2),
        lambda: comm.scatter_object([1], comm.rank),
        lambda: comm.scatter_object({1, 2}, comm.rank),
    ):
        with pytest.raises((TypeError, ValueError, IndexError)) as caught:
            call()
        told.append(f"{type(caught.value).__name__}: {caught.value}")
    comm.barrier()
    return told


def test_bad_objects_are_refused_before_a_byte_moves(ranks):
    told = ranks(2, refused)[1]
    assert told[0].startswith("TypeError: broadcast_object on rank 1: a function cannot be pickled: ")
    assert told[1:] == [
        "ValueError: gather_object on rank 1: root 2 is not a rank of this group of 2; use 0 to 1",
        "ValueError: scatter_object on rank 1: 1 objects for 2 ranks",
        "TypeError: scatter_object on rank 1: the root gives a sequence of 2 objects, got {1, 2}",
    ]


def awaited(comm) -> list:
    async def both():
        first = comm.all_reduce(np.ones(3), async_op=True)
        second = comm.all_gather_object(comm.rank, async_op=True)
        return [(await first).tolist(), await second]

    return asyncio.run(both())


def test_work_is_awaitable(ranks):
    assert ranks(2, awaited) == [[[2.0] * 3, [0, 1]]] * 2


def rows_of_every_length(comm) -> list[str]:
    """Broadcast and scatter pickles about as long as the rows that a root chooses among."""
    wrong = []
    for edge in (0, 120, 180, 368, 376, 504, 4096, 65_500, 65_536):
        for more in range(-40, 41, 4):
            value = bytes([7]) * max(edge + more, 0)
            for root in range(comm.size):
                if comm.broadcast_object(value if comm.rank == root else None, root) != value:
                    wrong.append(f"broadcast of {len(value)} from {root}")
                objects = [(i, value[: len(value) // (1 + i)]) for i in range(comm.size)]
                if comm.scatter_object(objects if comm.rank == root else None, root) != objects[comm.rank]:
                    wrong.append(f"scatter of {len(value)} from {root}")
    return wrong


def test_rows_of_every_length(ranks, n):
    assert ranks(n, rows_of_every_length) == [[]] * n
