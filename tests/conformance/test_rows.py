"""The calls with counts, in rows: axis=0."""

import numpy as np
import pytest

from shmcoll import CollectiveMismatch


def rows_of(rank: int, count: int, row: tuple[int, ...]) -> np.ndarray:
    return (np.arange(count * int(np.prod(row))) + 100 * rank).reshape(count, *row)


ROWS = [(), (3,), (2, 2), (0,), (1,) * 9]


def exchange(comm, number: int) -> list[str]:
    """What went wrong, for rows of the shape of this number."""
    row, n, me, wrong = ROWS[number], comm.size, comm.rank, []
    counts = [[(i + 2 * j) % 4 for j in range(n)] for i in range(n)]  # rows from i to j
    xs = [rows_of(i, sum(counts[i]), row) for i in range(n)]
    begins = [np.cumsum([0, *one]) for one in counts]
    blocks = [[xs[i][begins[i][j] : begins[i][j + 1]] for j in range(n)] for i in range(n)]
    arriving = [counts[i][me] for i in range(n)]

    def expect(what: str, got, wanted) -> None:
        got, wanted = np.asarray(got), np.asarray(wanted)
        if got.shape != wanted.shape or (got != wanted).any():
            wrong.append(f"{row} {what}: {got!r}, not {wanted!r}")

    for later in (False, True):

        def done(got, later: bool = later):
            return got.wait(20) if later else got

        how = {"axis": 0, "async_op": later}
        wanted = np.concatenate([blocks[i][me] for i in range(n)])
        got, told = done(comm.all_to_all_v(xs[me], counts[me], **how))
        expect("all_to_all_v", got, wanted)
        expect("its counts", told, arriving)
        gaps = np.cumsum([0, *arriving])[:-1] + np.arange(n)
        out = np.full((sum(arriving) + n, *row), -1)
        padded = out.copy()
        for i, gap in enumerate(gaps):
            padded[gap : gap + arriving[i]] = blocks[i][me]
        given = {"recv_counts": arriving, "recv_displs": gaps, "recv_room": arriving}
        got, _ = done(comm.all_to_all_v(xs[me], counts[me], begins[me][:-1], **given, out=out, **how))
        expect("all_to_all_v, out", got, padded)
        whole, lengths = np.concatenate(xs), [len(x) for x in xs]
        got, told = done(comm.all_gather_v(xs[me], **how))
        expect("all_gather_v", got, whole)
        expect("its counts", told, lengths)
        got, told = done(comm.gather_v(xs[me], n - 1, recv_counts=lengths, **how))
        if me == n - 1:
            expect("gather_v", got, whole)
            expect("its counts", told, lengths)
        for out in (None, np.zeros((counts[n - 1][me], *row), int)):
            got = done(comm.scatter_v(xs[n - 1], n - 1, send_counts=counts[n - 1], out=out, **how))
            expect("scatter_v", got, blocks[n - 1][me])
        equal = rows_of(me, sum(counts[0]), row)
        wanted = n * equal + 100 * (n * (n - 1) // 2 - n * me) if equal.size else equal
        got = done(comm.reduce_scatter_v(equal, counts[0], **how))
        expect("reduce_scatter_v", got, wanted[begins[0][me] : begins[0][me + 1]])
        got = done(comm.reduce_scatter_v(equal, counts[0], out=equal[begins[0][me] : begins[0][me + 1]], **how))
        expect("reduce_scatter_v, in place", got, wanted[begins[0][me] : begins[0][me + 1]])
    return wrong


@pytest.mark.parametrize("number", range(len(ROWS)), ids=map(str, ROWS))
@pytest.mark.parametrize("size", [1, 3])
def test_rows_keep_their_shape(ranks, number, size):
    assert ranks(size, exchange, number) == [[]] * size


UNLIKE = {
    "axis": lambda comm: comm.all_gather_v(np.zeros((2, 3)), axis=0 if comm.rank else None),
    "axis of gather_v": lambda comm: comm.gather_v(np.zeros((2, 3)), axis=0 if comm.rank else None),
    "axis of scatter_v": lambda comm: comm.scatter_v(
        np.zeros((6, 1)), send_counts=[3, 3], axis=None if comm.rank else 0
    ),
    "axis of reduce_scatter_v": lambda comm: comm.reduce_scatter_v(
        np.zeros((4, 3)), [2, 2] if comm.rank else [6, 6], axis=0 if comm.rank else None
    ),
    "rows": lambda comm: comm.all_to_all_v(np.zeros((2, 3 + comm.rank)), [1, 1], axis=0),
    "rows of one element": lambda comm: comm.all_gather_v(np.zeros((2, 1) if comm.rank else 2), axis=0),
}


def refuse(comm, name: str) -> str:
    with pytest.raises(CollectiveMismatch) as error:
        UNLIKE[name](comm)
    return str(error.value)


@pytest.mark.parametrize("name", UNLIKE)
def test_ranks_that_disagree_about_rows_are_told(ranks, name):
    told = ranks(2, refuse, name)
    assert "the ranks disagree in operation #1" in told[0]
    assert told[0] == told[1]


def test_an_out_with_other_rows_than_the_root_sends(ranks):
    def use(comm) -> str:
        with pytest.raises(ValueError) as error:
            comm.scatter_v(np.zeros((4, 3)), send_counts=[2, 2], axis=0, out=np.zeros((3, 2) if comm.rank else (2, 3)))
        comm.barrier()
        return str(error.value)

    told = ranks(2, use)
    assert told[0] == told[1]
    assert told[0].startswith("scatter_v #1: rank 1 receives into an array of float64, ")
