"""gather_v on real ranks."""

import numpy as np

from tests.support import layouts


def test_gather_v_into_the_array_that_x_is_part_of(ranks, n):
    def in_place(comm) -> str:
        wrong = []
        for root in range(comm.size):
            whole = np.repeat(np.arange(comm.size) + 10 * root, np.arange(comm.size) + 2)
            begin = sum(range(2, comm.rank + 2))
            mine = whole[begin : begin + comm.rank + 2]
            before = whole.copy()
            if comm.rank == root:
                whole[:begin] = whole[begin + comm.rank + 2 :] = -1
            got, _ = comm.gather_v(mine, root, out=whole)
            wrong.append(layouts.same(got, before) if comm.rank == root else "")
        return "".join(wrong)

    assert ranks(n, in_place) == [""] * n


def test_what_the_others_give_for_the_result_is_not_looked_at(ranks):
    def careless(comm) -> list | None:
        others = {"recv_counts": "no counts", "recv_displs": [-1], "out": "no array"}
        got, counts = comm.gather_v(np.full(comm.rank + 1, comm.rank), **({} if comm.rank == 0 else others))
        return None if got is None else [got.tolist(), counts.tolist()]

    assert ranks(3, careless) == [[[0, 1, 1, 2, 2, 2], [1, 2, 3]], None, None]
