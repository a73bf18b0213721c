"""gather on real ranks."""

import numpy as np

from tests.support import layouts


def test_gather_into_the_array_that_x_is_part_of(ranks, n):
    def in_place(comm) -> list[str]:
        wrong = []
        for root in range(comm.size):
            whole = np.zeros((comm.size, 5), np.int32)
            whole[comm.rank] = comm.rank + 10 * root
            wanted = np.repeat(np.arange(comm.size, dtype=np.int32) + 10 * root, 5)
            x = whole[comm.rank]
            flat = comm.gather(x, root, out=whole.reshape(-1) if comm.rank == root else None)
            wrong.append(layouts.same(flat, wanted) if comm.rank == root else "")
            mine = np.full(5, comm.rank)
            places = [mine if r == comm.rank else np.zeros(5, mine.dtype) for r in range(comm.size)]
            comm.gather(mine, root, out=places)
            if comm.rank == root:
                wrong += [layouts.same(p, np.full(5, r)) for r, p in enumerate(places)]
        return [w for w in wrong if w]

    assert ranks(n, in_place) == [[]] * n
