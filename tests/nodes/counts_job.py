"""What each rank of a job over nodes runs to try the collectives with counts: native code makes them, or Python, or
some ranks each; with an `out`, or in two phases. It asserts. Argument: the seed."""

import gc
import signal
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import shmcoll
from shmcoll.engine.layout import WORD
from shmcoll.nodes.opening.layout import TABLES
from tests.nodes.short_calls_job import Counted, Subclass, refuse_to_send

Arrays = list[np.ndarray]

LAST = 2  # the root of gather_v and scatter_v
KEPT: list[Any] = []  # groups that the end of the process finds


def parts(x: np.ndarray, counts: np.ndarray) -> Arrays:
    return np.split(x, np.cumsum(counts)[:-1])


#: the call, from all counts by sender and receiver, and from this rank's x; and its result from the arrays of all
OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., np.ndarray | None]]] = {
    "all_to_all_v": (
        lambda comm, x, counts, out: comm.all_to_all_v(x, counts[comm.rank].tolist(), out=out)[0],
        lambda rank, xs, counts: np.concatenate(
            [parts(x, row)[rank] for x, row in zip(xs, counts, strict=True)],
        ),
    ),
    "all_gather_v": (
        lambda comm, x, counts, out: comm.all_gather_v(x, out=out)[0],
        lambda rank, xs, counts: np.concatenate(xs),
    ),
    "gather_v": (
        lambda comm, x, counts, out: comm.gather_v(x, LAST, out=out)[0],
        lambda rank, xs, counts: np.concatenate(xs) if rank == LAST else None,
    ),
    "scatter_v": (
        lambda comm, x, counts, out: comm.scatter_v(
            x if comm.rank == LAST else None, LAST, send_counts=counts[LAST] if comm.rank == LAST else None, out=out
        ),
        lambda rank, xs, counts: parts(xs[LAST], counts[LAST])[rank],
    ),
}


def results(comm: Any, seed: int, counted: Counted) -> None:
    """Every operation, with blocks that come with the opening, or go their own way, or both."""
    n, me = comm.size, comm.rank
    for number, most in enumerate((2, 8, 60, 2000, 9000, 40_000, 300_000)):
        rng = np.random.default_rng([seed, most])
        counts = rng.integers(0, most, (n, n))
        counts[number % n] = 0
        counts[(number + 1) % n] //= 100  # of some ranks the source is short
        for dtype in (np.float64, np.int8):
            xs = [rng.integers(-9, 9, row.sum()).astype(dtype) for row in counts]
            for name, (call, wanted) in OPERATIONS.items():
                found = wanted(me, xs, counts)
                for way in ("first", "native", "mixed", "in Python", "native"):
                    by_python = way == "in Python" or (way == "mixed" and me % 2)
                    for has_out in (False, True, bool(me % 2)):
                        before = counted.calls
                        out = np.full_like(found, 77) if has_out and found is not None else None
                        x = xs[me].view(Subclass) if by_python else xs[me]
                        got = call(comm, x, counts, out)
                        assert (got is None) == (found is None)
                        if found is not None:
                            assert got.dtype == dtype
                            assert np.array_equal(got, found), (name, way, has_out)
                        if way == "native":
                            assert counted.calls == before, (name, most, has_out)


def displacements(comm: Any) -> None:
    """Blocks that overlap in the source, and lie in any order, with gaps, in the result."""
    n, me = comm.size, comm.rank
    for count in (1, 3000):
        x = np.arange(2.0 * count) + 1000 * me
        wanted = np.zeros(2 * n * count)
        for rank in range(n):
            wanted[2 * (n - 1 - rank) * count :][:count] = np.arange(count) + 1000.0 * rank + me % 2 * count
        for _ in range(3):
            out = np.zeros(2 * n * count)
            got, received = comm.all_to_all_v(
                x,
                [count] * n,
                [rank % 2 * count for rank in range(n)],
                recv_displs=np.array([2 * (n - 1 - rank) * count for rank in range(n)], np.int32),
                out=out,
            )
            assert got is out
            assert np.array_equal(out, wanted)
            assert received.tolist() == [count] * n


def refusals(comm: Any, counted: Counted) -> None:
    """All ranks raise the same error, whichever way they go, and the group goes on."""
    n, me = comm.size, comm.rank
    texts = []
    for way in range(4):
        x = np.ones(n)
        x = x.view(Subclass) if way == 1 or (way == 2 and me % 2) else x
        expected = [1] * (n - 1) + [2 if me == 1 else 1]
        before = counted.calls
        try:
            comm.all_to_all_v(x, [1] * n, recv_counts=expected)
        except ValueError as error:
            texts.append(str(error))
        assert counted.calls == before + 1  # which reports it
        assert comm.all_reduce(np.ones(1))[0] == n
    assert len(texts) == 4
    assert all(comm.all_gather_object(texts)[rank] == texts for rank in range(n))
    for text in texts:
        assert text.startswith("all_to_all_v #")
        assert text.endswith(f": rank 1 expects 2 elements from rank {n - 1}, which sends 1")


def refusals_count_elements(comm: Any) -> None:
    """The text of a refusal does not depend on a call before, of which a rank did not know the elements."""
    n, root = comm.size, comm.rank == 0
    for _ in range(3):
        comm.scatter_v(np.arange(float(n)) if root else None, 0, send_counts=[1] * n if root else None)
        comm.scatter_v(np.full(n, b"ab") if root else None, 0, send_counts=[1] * n if root else None)
        try:
            comm.gather_v(np.ones(5), 0, out=np.zeros(5 * n - 1) if root else None)
        except ValueError as error:
            place = 5 * (n - 1)
            assert f"5 elements from rank {n - 1} at displacement {place} of rank 0 do not fit" in str(error)
        else:
            raise AssertionError("not refused")


def mismatches(comm: Any) -> None:
    n = comm.size
    for known in (False, True):
        group = comm.dup()
        if known:
            for dtype in (np.float32, np.float64) * 2:
                group.all_to_all_v(np.ones(n, dtype), [1] * n)
        try:
            group.all_to_all_v(np.ones(n, np.float32 if comm.rank == n - 1 else np.float64), [1] * n)
        except shmcoll.CollectiveMismatch as error:
            assert "float32" in str(error)
            assert "float64" in str(error)
        else:
            raise AssertionError("no mismatch")


def between_two_phases(comm: Any) -> None:
    """No other call enters between the phases of a native call, not even of the same thread."""
    n, me, group = comm.size, comm.rank, comm.dup()
    refused = []

    def handler(*_: object) -> None:
        try:
            group.barrier()
        except shmcoll.CallNotAllowed as error:
            refused.append(str(error))

    entry = None

    def interrupted(*arguments: Any) -> int:
        status: int = entry(*arguments)
        if len(arguments) > 8:  # the first phase
            signal.raise_signal(signal.SIGUSR1)
        return status

    before = signal.signal(signal.SIGUSR1, handler)
    for i in range(4):
        if i == 2:  # native code makes the call by now
            entry, group._all_to_all_v = group._all_to_all_v, interrupted
        got, _ = group.all_to_all_v(np.full(n, me), [1] * n)
        assert got.tolist() == list(range(n))
    signal.signal(signal.SIGUSR1, before)
    assert len(refused) == 2, refused


def interrupted_between_two_phases(comm: Any) -> None:
    """All ranks learn of it, and the process ends as usual, though MPI has sends that nobody receives."""
    n, group = comm.size, comm.dup()
    KEPT.append(group)
    for _ in range(2):
        group.all_to_all_v(np.ones(n), [1] * n)
    entry = group._all_to_all_v

    def interrupted(*arguments: Any) -> int:
        entry(*arguments)
        raise KeyboardInterrupt

    if comm.rank == 1:
        group._all_to_all_v = interrupted
    try:
        group.all_to_all_v(np.ones(50_000 * n), [50_000] * n)
    except (KeyboardInterrupt, shmcoll.RankFailed) as error:
        assert comm.rank == 1 or "rank 1 (node " in str(error)
    else:
        raise AssertionError("no exception")


def threads(comm: Any) -> None:
    """Calls in two phases of two threads on one group: one of them waits for the other, or all are asynchronous."""
    n, me = comm.size, comm.rank
    groups = [comm.dup() for _ in range(2)]

    def calls(group: Any) -> None:
        for i in range(100):
            got, _ = group.all_to_all_v(np.full(n, me + i), [1] * n)
            assert got.tolist() == list(range(i, n + i))

    thread = threading.Thread(target=calls, args=(groups[0],))
    thread.start()
    works = [groups[1].all_gather_v(np.full(me, i), async_op=True) for i in range(20)]
    calls(groups[1])
    for i, work in enumerate(works):
        assert work.wait()[0].tolist() == [i] * (n * (n - 1) // 2)
    thread.join()


def reduce_scatters(comm: Any, seed: int, counted: Counted) -> None:
    """Blocks of different lengths, some of them empty, which come with the opening or not; in place, too."""
    n, me = comm.size, comm.rank
    for most in (2, 60, 2000, 300_000):
        rng = np.random.default_rng([seed, most])
        lengths = rng.integers(0, most, n)
        lengths[most % n] = 0
        for dtype in (np.float64, np.int8):
            xs = [rng.integers(-9, 9, lengths.sum()).astype(dtype) for _ in range(n)]
            wanted = parts(np.add.reduce(xs, dtype=dtype), lengths)[me]
            for way in ("first", "native", "mixed", "in Python", "native"):
                by_python, before = way == "in Python" or (way == "mixed" and me % 2), counted.calls
                x = xs[me].copy()
                got = comm.reduce_scatter_v(x.view(Subclass) if by_python else x, lengths)
                assert got.dtype == dtype
                assert np.array_equal(got, wanted), (most, way)
                own = parts(x, lengths)[me]
                comm.reduce_scatter_v(x, lengths.tolist(), out=own)
                assert np.array_equal(own, wanted), (most, way)
                assert way != "native" or counted.calls == before


def lists(comm: Any) -> None:
    """A list of blocks is not taken for an array of the shape of one block."""
    n, group = comm.size, comm.dup()
    for length in (4 * n, 20_000 * n):
        for _ in range(2):
            assert group.reduce_scatter([np.ones(length)] * n)[0] == n
        x = np.ones(length)
        assert group.reduce_scatter(x.view(Subclass) if comm.rank % 2 else x)[0] == n


def memory_of_a_result_that_fails(comm: Any) -> None:
    """MPI may still write a result that native code has made no use of, so it stays, though nobody has it."""
    n, group, last = comm.size, comm.dup(), comm.size - 1
    is_beside = any({comm.rank, last} <= set(ranks) for ranks in group.nodes)  # which has no message from it
    counts, x = [200_000] * n, np.zeros(200_000 * n)
    for _ in range(2):
        group.all_to_all_v(x, counts)
    state = group._dispatcher.agreement.state
    tracemalloc.start()
    try:
        if comm.rank == last:
            kept = refuse_to_send(state)
            group.all_to_all_v(x.view(Subclass), counts)
        else:
            group.all_to_all_v(x, counts)
    except shmcoll.RankFailed as error:
        assert comm.rank != last or (kept and "MPI reports an error" in str(error))
    else:
        assert is_beside and comm.rank != last, "no exception"
    pending = len(state.abandoned())
    del group, state
    gc.collect()
    kept = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*calls/counts.py")])
    tracemalloc.stop()
    if not is_beside:
        assert pending > 0
        assert sum(trace.size for trace in kept.traces) >= x.nbytes


def many_ranks(comm: Any, seed: int) -> None:
    """The way of groups whose tables an opening does not carry."""
    group = comm.dup()
    state = group._dispatcher.agreement.state
    state.words[TABLES // WORD] = 0
    del state._memory[TABLES]
    counted = Counted(group)
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 50, (comm.size, comm.size))
    xs = [rng.random(row.sum()) for row in counts]
    for call, wanted in OPERATIONS.values():
        for _ in range(2):
            found, before = wanted(comm.rank, xs, counts), counted.calls
            got = call(group, xs[comm.rank], counts, None)
            assert (got is None) == (found is None)
            assert found is None or np.array_equal(got, found)
            assert counted.calls == before
    try:
        group.all_gather_v(xs[comm.rank], recv_counts=[10**6] * comm.size)
    except ValueError as error:
        assert "rank 0 expects 1000000 elements" in str(error)
    else:
        raise AssertionError("not refused")


def main() -> None:
    comm, seed = shmcoll.init(), int(sys.argv[1])
    many_ranks(comm, seed)
    counted = Counted(comm)
    results(comm, seed, counted)
    reduce_scatters(comm, seed, counted)
    lists(comm)
    displacements(comm)
    refusals(comm, counted)
    refusals_count_elements(comm)
    mismatches(comm)
    between_two_phases(comm)
    threads(comm)
    memory_of_a_result_that_fails(comm)
    interrupted_between_two_phases(comm)


if __name__ == "__main__":
    main()
