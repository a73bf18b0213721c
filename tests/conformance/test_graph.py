"""Neighbour collectives on real ranks: drawn graphs with edges that occur twice, to the rank itself and to nobody."""

import numpy as np
import pytest

import shmcoll
from tests.support.patience import PATIENCE
from tests.support.suite import judge, run_cases


def case(seed: int, n: int):
    """The model: the same edges for all ranks, and what each rank gives as a function of the edge."""

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        edges = [(int(a), int(b)) for a, b in rng.integers(0, n, (int(rng.integers(3 * n)), 2))]
        sources = [a for a, b in edges if b == comm.rank]
        order = rng.permutation(len(edges))
        outgoing = [edges[i][1] for i in order if edges[i][0] == comm.rank]
        long, later = int(rng.choice([1, 3, 30_000])), bool(rng.random() < 0.3)
        dtype = rng.choice(["int64", "float32", "uint8"])
        place = int(rng.integers(len(sources) + 1))
        incoming = [*sources[:place], None, *sources[place:]] if rng.random() < 0.3 else sources
        nth = [sources[:i].count(a) for i, a in enumerate(sources)]  # which of several edges from the same rank

        def block(a: int, b: int, i: int, length: int) -> np.ndarray:
            return (np.arange(length * 2).reshape(length, 2) + 7 * a + 3 * b + 31 * i).astype(dtype)

        def sent(length) -> list[np.ndarray]:
            return [block(comm.rank, b, outgoing[:i].count(b), length(i)) for i, b in enumerate(outgoing)]

        def result(work):
            return work.wait() if later else work

        wrong = []
        with comm.graph(incoming, outgoing) as graph:
            for _ in range(2):
                mine = block(comm.rank, 0, 0, long)
                got = result(graph.all_gather(mine, async_op=later))
                there = [np.zeros_like(mine) if a is None else block(a, 0, 0, long) for a in incoming]
                if not same(got, there, mine) or got.shape != (long * len(incoming), 2):
                    wrong.append(f"all_gather {got}")
                x = np.concatenate([np.empty((0, 2), dtype), *sent(lambda i: long)])
                numbers = iter(nth)
                there = [-mine if a is None else block(a, comm.rank, next(numbers), long) for a in incoming]
                out = np.concatenate([np.empty((0, 2), dtype), *(-mine for _ in incoming)])
                got = result(graph.all_to_all(x, out=out, async_op=later))
                if got is not out or not same(got, there, mine):
                    wrong.append(f"all_to_all {got}")
                got, counts = result(graph.all_gather_v(mine[: comm.rank], async_op=later))
                there = [mine[:0] if a is None else block(a, 0, 0, long)[:a] for a in incoming]
                if not same(got, there, mine) or counts.tolist() != [one.size for one in there]:
                    wrong.append(f"all_gather_v {got} {counts}")
                blocks = sent(lambda i: (comm.rank + outgoing[i]) % 3 * long)
                x = np.concatenate([np.empty((0, 2), dtype), *blocks])
                numbers = iter(nth)
                there = [
                    mine[:0] if a is None else block(a, comm.rank, next(numbers), (a + comm.rank) % 3 * long)
                    for a in incoming
                ]
                got, counts = result(graph.all_to_all_v(x, [one.size for one in blocks], async_op=later))
                if not same(got, there, mine) or counts.tolist() != [one.size for one in there]:
                    wrong.append(f"all_to_all_v {got} {counts}")
        return "; ".join(wrong)[:400]

    return f"{n=} {seed=}", check


def same(got: np.ndarray, blocks: list[np.ndarray], like: np.ndarray) -> bool:
    wanted = np.concatenate([like[:0], *blocks])
    return got.dtype == wanted.dtype and np.array_equal(got.reshape(-1), wanted.reshape(-1))


def run(comm, seed: int, factor: int):
    rng = np.random.default_rng(seed)
    return run_cases(comm, [case(int(rng.integers(1 << 32)), comm.size) for _ in range(8 * factor)])


def test_drawn_graphs(ranks, n, seed, factor):
    judge(ranks(n, run, seed, factor, deadline=PATIENCE * factor), at_least=8)


def around_a_grid(comm) -> list:
    """A tube of 3 x 2 ranks, on which both neighbours along the second axis are the same rank."""
    grid = comm.grid((3, 2), periods=(False, True))
    with grid.graph() as graph:
        x = 10 * comm.rank + np.arange(4)  # to before and behind, along both axes
        return [graph.sources, graph.destinations == graph.sources, graph.all_to_all(x, out=np.full(4, -1)).tolist()]


def test_a_grid_as_a_graph(ranks):
    """What comes from before was sent to behind, also where both are one rank."""
    assert ranks(6, around_a_grid) == [
        [(None, 2, 1, 1), True, [-1, 20, 13, 12]],
        [(None, 3, 0, 0), True, [-1, 30, 3, 2]],
        [(0, 4, 3, 3), True, [1, 40, 33, 32]],
        [(1, 5, 2, 2), True, [11, 50, 23, 22]],
        [(2, None, 5, 5), True, [21, -1, 53, 52]],
        [(3, None, 4, 4), True, [31, -1, 43, 42]],
    ]


def refused(comm) -> list[str]:
    told = []
    for call in (
        lambda: comm.graph([1] if comm.rank == 0 else [], [0] * 2 if comm.rank == 1 else []),
        lambda: comm.graph([], [1] if comm.rank == 0 else []),
        lambda: comm.graph([2]),
        lambda: comm.graph("12"),
        lambda: comm.graph([0.5]),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        told.append(f"{type(caught.value).__name__}: {caught.value}")
    with comm.graph([0, 1]) as graph:
        for call in (
            lambda: graph.all_to_all(np.ones(3)),
            lambda: graph.all_to_all_v(np.ones(3), [1, 1]),
            lambda: graph.all_gather(np.ones(3), out=np.ones(3)),
            lambda: graph.all_gather([None]),
        ):
            with pytest.raises((TypeError, ValueError)) as caught:
                call()
            told.append(f"{type(caught.value).__name__}: {caught.value}")
        told.append(graph.all_gather(comm.rank).tolist())
    return told


def test_ranks_that_do_not_name_each_other_are_told(ranks):
    zero, one = ranks(2, refused)
    assert zero[:2] == one[:2]
    assert one == [
        "ValueError: graph: rank 1 names rank 0 as a destination 2 times, but rank 0 names rank 1 as a source once; "
        "both ends name an edge",
        "ValueError: graph: rank 0 names rank 1 as a destination once, but rank 1 does not name rank 0 as a source; "
        "both ends name an edge",
        "ValueError: graph on rank 1: sources 2 is not a rank of this group of 2; use 0 to 1",
        "TypeError: graph on rank 1: sources must be a sequence of ranks, in which None is nobody; got '12'",
        "TypeError: graph on rank 1: sources must be an integer, got float",
        "ValueError: graph.all_to_all on rank 1: axis 0 of x, of shape (3,), must be 2 blocks of one length",
        "ValueError: graph.all_to_all_v on rank 1: send_counts [1, 1] must be 2 counts, one for each destination, that "
        "add up to the 3 elements of x",
        "ValueError: graph.all_gather on rank 1: out has shape (3,), the result has (6,)",
        one[8],
        [0, 1],
    ]
    assert one[8].startswith("TypeError: graph.all_gather on rank 1: x")


MISFITS = {
    "longer": lambda graph, odd: graph.all_gather(np.ones(3 + odd)),
    "shorter": lambda graph, odd: graph.all_gather(np.ones(3 - odd)),
    "of another dtype": lambda graph, odd: graph.all_gather_v(np.ones(3, "f4" if odd else "f8"), async_op=True).wait(),
}


def misfit(comm) -> list[str]:
    """A rank expects other blocks than its neighbour sends: both are told, and the group of the graph alone ends."""
    told = []
    for call in MISFITS.values():
        graph = comm.graph([1 - comm.rank])
        try:
            call(graph, comm.rank)
            graph.comm.barrier()
            told.append("nothing")
        except shmcoll.ShmcollError as error:
            told.append(f"{type(error).__name__}: {error}")
        comm.barrier()
        graph.close()
    return told


def test_blocks_that_do_not_fit_end_the_group(ranks):
    for name, *told in zip(MISFITS, *ranks(2, misfit), strict=True):
        assert any(one.startswith("CollectiveMismatch: graph.all_gather") for one in told), (name, told)
        assert all("a neighbour's block is not as expected" in one for one in told), (name, told)


def lost(comm) -> str:
    """A neighbour closes the graph in place of a call."""
    graph = comm.graph([1 - comm.rank])
    if comm.rank:
        graph.close()
        comm.barrier()
        return ""
    try:
        graph.all_gather([0.0])
    except shmcoll.RankFailed as error:
        comm.barrier()
        graph.close()
        return str(error)
    return "nothing"


def test_a_neighbour_that_leaves_is_named(ranks):
    told = ranks(2, lost)[0]
    assert "rank 1" in told and "closed" in told, told


def ahead(comm) -> list[list[int]]:
    """Rank 0 makes all its calls before the others begin, of every kind and length, and starts the last one later."""
    n, told = comm.size, []
    with comm.graph([(comm.rank - 1) % n], [(comm.rank + 1) % n]) as graph:
        works = []
        if comm.rank:
            comm.recv(source=comm.rank - 1)
        for i in range(6):
            works.append(graph.all_gather(np.full(3, 10 * i + comm.rank), async_op=True))
            works.append(graph.all_to_all_v(np.full(i * 9_000, 10 * i + comm.rank), [i * 9_000], async_op=True))
        if comm.rank + 1 < n:
            comm.send([1], comm.rank + 1)
        for work in works:
            result = work.wait()
            array = result[0] if type(result) is tuple else result
            told.append([array.size, *np.unique(array).tolist()])
    return told


def test_a_rank_may_be_several_calls_ahead(ranks):
    for rank, told in enumerate(ranks(3, ahead)):
        before = (rank - 1) % 3
        assert told[::2] == [[3, 10 * i + before] for i in range(6)]
        assert told[1::2] == [[0], *([i * 9_000, 10 * i + before] for i in range(1, 6))]
