"""How far the clocks of nodes differ, found by a few calls that all ranks make together.

Nobody leaves an all_gather before all have come. So the time at which a rank has left, by its clock, is not before the
time at which another one came, by that one's. From two ranks on two nodes, in both directions, follow a lower and an
upper bound of the difference of their clocks. The largest lower bound and the smallest upper bound of all calls and of
all ranks of the two nodes are as far apart as the quickest call takes. The difference is taken to be in the middle.
"""

import time
from typing import Any

import numpy as np

CALLS = 20


def difference(comm: Any) -> tuple[int, int]:
    """Return what to add to this node's CLOCK_MONOTONIC to have that of the node of rank 0, and by how much that may be
    wrong, in ns. All ranks of `comm` call it."""
    rows, left = [], 0
    for _ in range(CALLS + 1):
        came = time.monotonic_ns()
        rows.append(comm.all_gather(np.array([came, left])).reshape(-1, 2))
        left = time.monotonic_ns()
    came_at = np.array(rows)[:-1, :, 0]
    left_at = np.array(rows)[1:, :, 1]
    here, there = (next(node for node in comm.nodes if rank in node) for rank in (comm.rank, 0))
    return (
        between(came_at[:, here], left_at[:, here], came_at[:, there], left_at[:, there]) if here != there else (0, 0)
    )


def between(came: Any, left: Any, came_there: Any, left_there: Any) -> tuple[int, int]:
    """Return the difference between two nodes, and by how much it may be wrong. Each argument has a row for each call,
    with the time of each rank of a node."""
    least = np.max(np.max(came_there, axis=1) - np.min(left, axis=1))
    most = np.min(np.min(left_there, axis=1) - np.max(came, axis=1))
    return int(least + most) // 2, int(most - least + 1) // 2
