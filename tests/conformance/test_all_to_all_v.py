"""all_to_all_v on real ranks."""

import numpy as np

from tests.support import layouts


def test_shapes_of_several_dimensions_are_flattened(ranks, n):
    def flattened(comm) -> tuple[str, tuple]:
        x = np.arange(2 * 3 * comm.size).reshape(2, 3, comm.size) + 100 * comm.rank
        out = np.full((comm.size, 6), -1)
        got, _ = comm.all_to_all_v(x.transpose(1, 0, 2), [6] * comm.size, out=out.T.T)
        flat = [(np.arange(6 * comm.size).reshape(2, 3, comm.size) + 100 * r).transpose(1, 0, 2) for r in range(n)]
        return layouts.same(got, np.stack([f.reshape(-1)[comm.rank * 6 :][:6] for f in flat])), got.shape

    assert ranks(n, flattened) == [("", (n, 6))] * n
