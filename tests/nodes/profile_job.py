"""What each rank of a job over nodes runs to see what is recorded of it. It asserts, on rank 0. Argument: a file."""

import sys
import time
from collections import Counter

import numpy as np

import shmcoll
from shmcoll.profiling.spans import CALL, PART


def main() -> None:
    comm = shmcoll.init()
    late = comm.size - 1
    with comm.trace(sys.argv[1]) as trace:
        for _ in range(3):
            comm.all_reduce(np.ones(4))
        comm.all_reduce(np.ones(1 << 18))
        comm.broadcast_object("text")
        comm.all_to_all_v(np.arange(2.0 * comm.size), [2] * comm.size)
        if comm.rank == late:
            time.sleep(0.1)
        comm.barrier()
    if comm.rank:
        return
    wanted = {"all_reduce": 4, "broadcast_object": 1, "all_to_all_v": 1, "barrier": 1}
    assert [one.rank for one in trace.profiles] == list(range(comm.size))
    for one in trace.profiles:
        assert Counter(span.name for span in one.spans if span.kind == CALL) == wanted
        assert Counter({row.operation: 0 for row in one.totals}).keys() == wanted.keys()
        assert sum(row.calls for row in one.totals) == sum(wanted.values())
        assert any(span.kind == PART for span in one.spans)
        assert {span.group for span in one.spans if span.kind == CALL} == {tuple(range(comm.size))}
        assert all(0 <= span.waited <= span.end - span.begin for span in one.spans)
        assert (one.accuracy == 0) == (one.node == 0)
        last = [span for span in one.spans if span.name == "barrier" and span.kind == CALL][-1]
        if one.rank != late:
            assert last.waited > 80_000_000
            assert last.last == late
    # All are on one machine, whose clock is the same: what was found to differ is within what is said of it
    wrong = max(one.accuracy for one in trace.profiles)
    ends = [next(span.end for span in one.spans[::-1] if span.kind == CALL) for one in trace.profiles]
    assert max(ends) - min(ends) < 50_000_000 + 2 * wrong


if __name__ == "__main__":
    main()
