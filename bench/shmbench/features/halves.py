"""Types of half the size, beside as many elements of float32."""

import numpy as np

from shmbench.cli.sizes import short_size
from shmbench.collectives.payload import dtype_of
from shmbench.timing.ab_timing import Contest, Row, Settings, job
from shmbench.timing.entries import collective

SIZE = 64 << 20  # of float32
HALVES = ("bfloat16", "float16")


def rows(settings: Settings) -> list[Row]:
    return job(2, _measure, settings)


def _measure(contest: Contest) -> list[Row]:
    comm, elements = contest.comm, contest.settings.size(SIZE) // 4
    dtypes = [np.dtype(np.float32), *map(dtype_of, HALVES)]
    single, *halves = contest.run(
        [collective(comm, "all_reduce", elements * dtype.itemsize, dtype) for dtype in dtypes]
    )
    return [
        Row(
            f"all_reduce of {short_size(elements)} {name}",
            one.seconds,
            "as many float32",
            single.seconds,
            1 / 1.8,
            wrong=one.wrong + single.wrong,
        )
        for name, one in zip(HALVES, halves, strict=True)
    ]
