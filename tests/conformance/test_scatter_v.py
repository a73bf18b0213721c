"""scatter_v on real ranks."""

import numpy as np

from tests.support import layouts


def test_scatter_v_into_the_array_that_is_scattered(ranks, n):
    def in_place(comm) -> str:
        x = np.arange(2 * comm.size + 1)
        begin = [r + 1 for r in range(comm.size)]
        wrong = []
        for root in range(comm.size):
            mine = x.copy()
            block = [comm.size] * comm.size
            if comm.rank == root:
                got = comm.scatter_v(mine, root, send_counts=block, send_displs=begin, out=mine[: comm.size])
            else:
                got = comm.scatter_v(None, root)
            wrong.append(layouts.same(got, x[comm.rank + 1 :][: comm.size]))
        return "".join(wrong)

    assert ranks(n, in_place) == [""] * n
