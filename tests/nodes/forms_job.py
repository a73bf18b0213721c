"""On each rank: every call in its two forms, blocking on rank 0 and asynchronous on all others, of every kind of dtype.
Then errors in a group whose numbers differ from the world's. Writes what went wrong. Argument: a folder."""

import json
import sys
from pathlib import Path

import numpy as np

import shmcoll

FOREIGN = [np.dtype("S3"), np.dtype("U2"), np.dtype("M8[s]"), np.dtype([("a", "i4"), ("b", "f8")]), np.dtype("V5")]
NUMBERS = [np.dtype(name) for name in ("f8", "f4", "f2", "i8", "u1", "?", "c16")]


def calls(comm, dtype):
    n, x = comm.size, np.zeros((comm.size, 3), dtype)
    grid = comm.grid(n, True)
    yield "broadcast", lambda **how: comm.broadcast(x, 1, **how)
    yield "scatter", lambda **how: comm.scatter(x if comm.rank == 1 else None, 1, **how)
    yield "gather", lambda **how: comm.gather(x, 1, **how)
    yield "all_gather", lambda **how: comm.all_gather(x, **how)
    yield "all_to_all", lambda **how: comm.all_to_all(x, **how)
    yield "collective_permute", lambda **how: comm.collective_permute(x, [(r, (r + 1) % n) for r in range(n)], **how)
    yield "all_gather_v", lambda **how: comm.all_gather_v(x, **how)
    yield "all_to_all_v", lambda **how: comm.all_to_all_v(np.zeros(n, dtype), [1] * n, **how)
    yield "gather_v", lambda **how: comm.gather_v(x, 1, **how)
    yield "scatter_v", lambda **how: comm.scatter_v(np.zeros(n, dtype), 1, send_counts=[1] * n, **how)
    yield "exchange", lambda **how: grid.exchange(np.zeros((6, 4), dtype), **how)
    if dtype in NUMBERS:
        for name in ("all_reduce", "scan", "exscan"):
            yield name, lambda name=name, **how: getattr(comm, name)(x, "max" if dtype.kind != "c" else "sum", **how)
        yield "reduce", lambda **how: comm.reduce(x, 1, "max" if dtype.kind != "c" else "sum", **how)
        yield "reduce_scatter", lambda **how: comm.reduce_scatter(x, "max" if dtype.kind != "c" else "sum", **how)
    value = (dtype.str, 1)
    yield "broadcast_object", lambda **how: comm.broadcast_object(value, 1, **how)
    yield "all_gather_object", lambda **how: comm.all_gather_object(value, **how)
    yield "barrier", lambda **how: comm.barrier(**how)


def both_forms(comm) -> list[str]:
    wrong = []
    for dtype in (*FOREIGN, *NUMBERS):
        names = [name for name, _ in calls(comm, dtype)]
        for i, name in enumerate(names):
            group = comm.dup()
            call = list(calls(group, dtype))[i][1]
            try:
                call() if comm.rank == 0 else call(async_op=True).wait()
            except Exception as error:
                wrong.append(f"{name} of {dtype}: {type(error).__name__}: {error}")
            group.close()
    return wrong


def numbered(comm) -> str:
    """Ranks 1 and 2 are on different nodes. Return what a mismatch in their group says."""
    group = comm.split(0 if comm.rank in (1, 2) else None)
    if group is None:
        return ""
    try:
        group.all_reduce(np.zeros(1 + group.rank))
    except shmcoll.CollectiveMismatch as error:
        return str(error)
    finally:
        group.close()
    return "nothing"


def end_and_close(comm, times: int) -> int:
    """Return how many groups over nodes have ended by a mismatch, one after the other."""
    ended = 0
    for _ in range(times):
        group = comm.dup()
        try:
            group.all_reduce(np.zeros(1 + group.rank % 2))
        except shmcoll.CollectiveMismatch:
            ended += 1
        group.close()
    return ended


comm = shmcoll.init()
told = [both_forms(comm), numbered(comm), end_and_close(comm, int(sys.argv[2]))]
Path(sys.argv[1], f"rank{comm.rank}.json").write_text(json.dumps(told))
