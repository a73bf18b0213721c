"""Cases of all_gather_v: arrays of any shapes to all ranks, each with displacements of its own."""

from collections.abc import Iterator

import numpy as np

from tests.support import layouts
from tests.support.cases_gather_v import KINDS, draw_arrays, receive, wrong
from tests.support.suite import Case


def case(seed: int, n: int, kind: str, out: str, later: bool) -> Case:
    name = f"all_gather_v {kind} {out=}{' async' if later else ''} {n=} {seed=}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        arrays = draw_arrays(rng, n, kind)
        layout = layouts.draw_input(rng, arrays.dtype.numpy)
        x = layouts.INPUTS[layout](arrays.inputs[comm.rank])
        mine = np.random.default_rng((seed, comm.rank))
        own_out = out if mine.random() < 0.8 else "none"
        keywords, wanted = receive(mine, arrays, mine.random() < 0.4, own_out)
        got = comm.all_gather_v(x, async_op=later, **keywords)
        got = got.wait() if later else got
        return wrong(got, keywords, arrays, wanted) or layouts.changed(x, arrays.inputs[comm.rank], out)

    return name, check


def refused(seed: int, n: int) -> Case:
    """One rank's result is too short by one element: told to all, nothing is written."""

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        arrays = draw_arrays(rng, n, "large" if rng.random() < 0.3 else "some empty")
        odd, total = int(rng.integers(n)), int(arrays.counts.sum())
        if total == 0:
            return ""
        out = np.zeros(total - (comm.rank == odd), arrays.dtype.numpy)
        last = int(np.flatnonzero(arrays.counts)[-1])
        count = arrays.counts[last]
        words = (
            f"{count} elements from rank {last} at displacement {total - count} of rank {odd} "
            f"do not fit its result of {total - 1}"
        )
        return layouts.refused(lambda: comm.all_gather_v(arrays.inputs[comm.rank], out=out), words, out)

    return f"all_gather_v refused {n=} {seed=}", check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    for kind, times in KINDS.items():
        for _ in range(times * factor):
            drawn = int(rng.integers(1 << 32))
            yield case(drawn, n, kind, str(rng.choice(["none", "none", *layouts.OUTPUTS])), rng.random() < 0.1)
            if rng.random() < 0.1:
                yield refused(drawn, n)
