"""The operations of `shmcoll.nki.collectives`."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from shmbench.doors import Call
from shmcoll.nki import collectives


def calls(comm: Any) -> Iterator[Call]:
    size = comm.size
    x = np.arange(2 * size, dtype=np.float32) + comm.rank
    out, dst = np.empty_like(x), np.empty_like(x)
    counts = np.full(size, 2)
    group = collectives.ReplicaGroup([list(range(size))])
    metadata = np.array([counts, 2 * np.arange(size), 0 * counts], np.uint32)

    yield Call(
        "all_to_all_v",
        lambda: comm.all_to_all_v(x, counts, out=out),
        lambda: collectives.all_to_all_v([x], [dst], group, metadata),
        (out, dst),
    )
