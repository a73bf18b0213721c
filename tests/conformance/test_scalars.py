"""Numbers and 0-d arrays come back as numpy scalars, unless the result has memory of the caller's."""

import array
import json

import numpy as np
import pytest

from shmcoll import CollectiveMismatch


def scalars(comm) -> list[str]:
    n, total, told = comm.size, sum(range(comm.size)), []
    numbers = (comm.rank, float(comm.rank), np.float32(comm.rank), np.array(comm.rank), complex(comm.rank))
    for x in numbers:
        for later in (False, True):
            calls = {
                "all_reduce": (comm.all_reduce(x, async_op=later), total),
                "reduce": (comm.reduce(x, n - 1, async_op=later), total if comm.rank == n - 1 else None),
                "scan": (comm.scan(x, async_op=later), sum(range(comm.rank + 1))),
                "exscan": (comm.exscan(x, async_op=later), sum(range(comm.rank)) if comm.rank else None),
                "reduce_scatter": (comm.reduce_scatter([np.asarray(x)] * n, async_op=later), total),
                "scatter": (comm.scatter([np.asarray(x)] * n, n - 1, async_op=later), n - 1),
                "permute": (comm.collective_permute(x, [(r, r) for r in range(n)], async_op=later), comm.rank),
                "broadcast": (comm.broadcast(x if comm.rank == n - 1 else None, n - 1, async_op=later), n - 1),
            }
            for name, (got, wanted) in calls.items():
                got = got.wait(20) if later else got
                is_own = name == "broadcast" and got is x  # memory of the caller's
                if got != wanted or not (got is None or is_own or type(got) is np.asarray(x).dtype.type):
                    told.append(f"{name} of {x!r}: {got!r}")
    assert comm.all_reduce(True, "lor") is np.True_
    assert json.dumps(comm.all_reduce(2.5)) == str(2.5 * n)
    assert {comm.all_reduce(1): 1} == {n: 1}
    out = np.zeros(())
    assert comm.all_reduce(2.0, out=out) is out
    x = np.array(float(comm.rank))
    plan = comm.plan("all_reduce", x)
    first = plan()
    assert first.shape == () and first == total
    x[...] = 1
    assert plan() is first and first == n
    return told


@pytest.mark.parametrize("size", [1, 2, 3])
def test_scalars(ranks, size):
    assert ranks(size, scalars) == [[]] * size


def broadcasts(comm) -> None:
    n, x = comm.size, np.arange(100_000.0).reshape(4, -1)
    for root in range(n):
        for length in (1, 3, x.shape[1]):
            mine = x[:, :length] if comm.rank == root else None
            got = comm.broadcast(mine, root)
            assert got.shape == (4, length)
            assert (got == x[:, :length]).all()
            target = np.zeros((4, length))
            odd = mine if comm.rank == root else target if comm.rank % 2 else None
            got = comm.broadcast(odd, root, async_op=True).wait(20)
            assert (got == x[:, :length]).all()
            assert got is target or odd is not target
            assert comm.broadcast(comm.rank, root) == root
            empty = comm.broadcast(np.zeros((0, length), "f4") if comm.rank == root else None, root)
            assert (empty.shape, empty.dtype) == ((0, length), np.float32)
        for make in (bytearray, lambda data: memoryview(bytearray(data)), lambda data: array.array("B", data)):
            memory = make(bytes(range(8)) if comm.rank == root else bytes(8))
            for later in (False, True):
                got = comm.broadcast(memory, root, async_op=later)
                assert (got.wait(20) if later else got) is memory
                assert bytes(memory) == bytes(range(8))
    if comm.size > 2:
        with comm.split(comm.rank % 2, key=-comm.rank) as half:
            assert half.broadcast("ab" if False else (np.arange(3) if half.rank == 0 else None)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_broadcast_to_whatever_a_rank_gives(ranks, size):
    ranks(size, broadcasts)


def test_a_rank_without_an_array_does_not_hide_that_others_disagree(ranks):
    def use(comm) -> str:
        with pytest.raises(CollectiveMismatch) as error:
            comm.broadcast([np.zeros(300), None, np.zeros(400)][comm.rank])
        return str(error.value)

    told = ranks(3, use)
    assert told[0] == told[1] == told[2]
    assert "rank 1 called broadcast(None, root=0)" in told[0]
    assert "rank 2 called broadcast(float64[400], root=0)" in told[0]


@pytest.mark.parametrize("other", [lambda comm: comm.broadcast(None, 0), lambda comm: comm.all_reduce(np.zeros(3))])
def test_a_rank_without_an_array_agrees_about_the_root_and_the_call(ranks, other):
    def use(comm) -> str:
        with pytest.raises(CollectiveMismatch) as error:
            other(comm) if comm.rank == 2 else comm.broadcast(np.zeros(3) if comm.rank else None, 1)
            comm.barrier()  # a rank that has gone on learns of it here
        return str(error.value)

    told = ranks(3, use)
    assert told[0] == told[1] == told[2]
