"""all_gather_v on real ranks."""

import numpy as np

from tests.support import layouts


def test_all_gather_v_into_the_array_that_x_is_part_of(ranks, n):
    def in_place(comm) -> str:
        wanted = np.repeat(np.arange(comm.size), np.arange(comm.size) + 2)
        whole = np.where(wanted == comm.rank, wanted, -1)
        begin = sum(range(2, comm.rank + 2))
        got, _ = comm.all_gather_v(whole[begin : begin + comm.rank + 2], out=whole)
        return layouts.same(got, wanted) or ("" if got is whole else "out was not returned")

    assert ranks(n, in_place) == [""] * n
