"""What each rank of a job over nodes runs to try calls of all lengths: native code makes them, or Python, or some ranks
each. It asserts. Argument: the seed."""

import ctypes
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import shmcoll
from shmcoll.engine.layout import WORD
from shmcoll.nodes.algorithms import memory
from shmcoll.nodes.opening.layout import DATA_TAG, ISEND, MOST_ROW

Arrays = list[np.ndarray]

SHORT = (0, 8, 200, 240, 248, 4096, 20_000, 32 << 10, 64 << 10, 120 << 10)
LONG = (600_000, 3 << 20)  # bytes: less than a segment, and several of them


def ring(size: int) -> list[tuple[int, int]]:
    """Return pairs in which the last rank sends nothing, and rank 0 gets nothing."""
    return [(rank, rank + 1) for rank in range(size - 1)]


def total(xs: Arrays) -> np.ndarray:
    return np.add.reduce(xs, dtype=xs[0].dtype)


#: the call, and its result on a rank from the arrays of all; None on a rank without a result
OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Arrays, int], np.ndarray | None]]] = {
    "all_reduce": (lambda comm, x: comm.all_reduce(x), lambda xs, _: total(xs)),
    "reduce": (lambda comm, x: comm.reduce(x, 1, "max"), lambda xs, rank: np.max(xs, axis=0) if rank == 1 else None),
    "reduce_scatter": (
        lambda comm, x: comm.reduce_scatter(x),
        lambda xs, rank: np.split(total(xs), len(xs))[rank],
    ),
    "all_gather": (lambda comm, x: comm.all_gather(x), lambda xs, _: np.concatenate(xs)),
    "gather": (lambda comm, x: comm.gather(x, 2), lambda xs, rank: np.concatenate(xs) if rank == 2 else None),
    "all_to_all": (
        lambda comm, x: comm.all_to_all(x),
        lambda xs, rank: np.concatenate([np.split(x, len(xs))[rank] for x in xs]),
    ),
    "collective_permute": (
        lambda comm, x: comm.collective_permute(x, ring(comm.size)),
        lambda xs, rank: xs[rank - 1] if rank else np.zeros_like(xs[0]),
    ),
    "scan": (lambda comm, x: comm.scan(x), lambda xs, rank: total(xs[: rank + 1])),
    "exscan": (lambda comm, x: comm.exscan(x), lambda xs, rank: total(xs[:rank]) if rank else None),
    "broadcast": (lambda comm, x: comm.broadcast(x, 1), lambda xs, _: xs[1]),
}


class Counted:
    """Counts the calls that native code leaves to Python."""

    def __init__(self, comm: Any) -> None:
        self.calls = 0
        self._perform, dispatcher = comm._dispatcher.perform, comm._dispatcher
        dispatcher.perform = self

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        return self._perform(*arguments)


def same(found: Any, wanted: np.ndarray | None) -> None:
    assert (found is None) == (wanted is None), (found, wanted)
    if wanted is not None:
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted), (found, wanted)


@cache
def arrays(seed: int, n: int, count: int, dtype: type) -> Arrays:
    """Return the arrays of all ranks."""
    rng = np.random.default_rng([seed, count])
    return [rng.integers(-9, 9, count).astype(dtype) for _ in range(n)]


def results(comm: Any, seed: int, counted: Counted) -> None:
    """Every operation with arrays of all lengths around the limits, on all ways."""
    n, most = comm.size, comm._dispatcher.agreement.state.most_row
    for name, (call, wanted) in OPERATIONS.items():
        for dtype in (np.float64, np.int16):
            for length in (*SHORT, most, most + 16 * n, *LONG):
                xs = arrays(seed, n, length // np.dtype(dtype).itemsize // n * n, dtype)
                result = wanted(xs, comm.rank)
                for way in ("first", "native", "mixed", "in Python"):
                    x, before = xs[comm.rank].copy(), counted.calls
                    by_python = way == "in Python" or (way == "mixed" and comm.rank % 2)
                    given = x.view(Subclass) if by_python else x
                    same(call(comm, given), result)
                    if way == "native":
                        assert counted.calls == before, (name, length)
                    assert not by_python or counted.calls == before + 1


def rows_of_many_ranks(comm: Any, seed: int) -> None:
    """Every operation as with so many ranks that an opening carries few bytes of each, and leaders exchange blocks."""
    few, memory.FEW_RANKS = memory.FEW_RANKS, 0
    group = comm.dup()
    memory.FEW_RANKS = few
    state = group._dispatcher.agreement.state
    state.most_row = state.words[MOST_ROW // 8] = 240
    for call, wanted in OPERATIONS.values():
        for count in (30, 600, 3000, 4096, 9000):
            rng = np.random.default_rng([seed, count])
            xs = [rng.integers(-9, 9, count * comm.size).astype(np.int16) for _ in range(comm.size)]
            for way in ("first", "native", "mixed"):
                x = xs[comm.rank].view(Subclass) if way == "mixed" and comm.rank % 2 else xs[comm.rank]
                same(call(group, x), wanted(xs, comm.rank))


def roots(comm: Any, counted: "Counted") -> None:
    """Broadcasts of all lengths around the limits, from every rank, to ranks with arrays and without."""
    for root in range(comm.size):
        for count in (0, 1, 20, 26, 27, 28, 30, 1000, 8192, 8193, 30_000, 300_000):
            wanted = np.arange(count) + root
            for _ in range(2):
                x = wanted.copy() if comm.rank == root else np.zeros_like(wanted)
                same(comm.broadcast(x, root), wanted)
            for without in (lambda rank: True, lambda rank: rank % 2):
                x = wanted if comm.rank == root or not without(comm.rank) else None
                same(comm.broadcast(x.copy() if x is not None else None, root), wanted)
            scatters(comm, root, count, counted)


def scatters(comm: Any, root: int, count: int, counted: "Counted") -> None:
    """Scatter an array or a list, to ranks with a result, without, and both."""
    n, rank = comm.size, comm.rank
    whole = np.arange(n * count).reshape(n * count, 1) + root
    parts = np.split(whole, n)
    for _ in range(2):
        before = counted.calls
        same(comm.scatter(whole if rank == root else None, root, out=np.empty_like(parts[0])), parts[rank])
    assert counted.calls == before
    if rank == root:  # in place
        own = whole.copy()[rank * count :][:count]
        assert own.base is not None
        same(comm.scatter(own.base, root, out=own), parts[rank])
    else:
        same(comm.scatter(None, root, out=np.empty_like(parts[0])), parts[rank])
    rows = np.zeros_like(whole)
    rows[rank * count :][:count] = parts[rank]
    x = rows[rank * count :][:count] if rank == root else parts[rank]
    same(comm.gather(x, root, out=rows if rank == root else None), whole if rank == root else None)
    for has_out in (False, bool(rank % 2)):
        out = np.empty_like(parts[0]) if has_out else None
        same(comm.scatter(whole if rank == root else None, root, out=out), parts[rank])
        same(comm.scatter(parts if rank == root else None, root, out=out), parts[rank])


class Subclass(np.ndarray):
    """An array that native code does not read."""


def operators(comm: Any, counted: Counted) -> None:
    """All operators that have kernels, on types that are widened and others: from Python, which loads these, then from
    native code."""
    for name in ("sum", "prod", "max", "min", "avg", "land", "bxor"):
        for dtype in (np.float32, np.float16, np.int8, np.complex128, np.bool_):
            x = np.full(6, comm.rank + 1).astype(dtype)
            try:
                first = comm.all_reduce(x.view(Subclass), name)
            except (TypeError, ValueError):
                continue
            before = counted.calls
            for length in (6, 1):
                same(comm.all_reduce(x[:length], name), first[:length])
            assert counted.calls == before


def seven(a: float, b: float) -> float:
    if a == 7 or b == 7:
        raise ValueError("seven")
    return a + b


def a_function_that_raises(comm: Any) -> None:
    """All ranks raise, wherever in a long array the function does."""
    group, operator = comm.dup(), shmcoll.op(seven)
    x = np.zeros(200_000 * comm.size)
    x[-5] = 7 * (comm.rank == comm.size - 1)
    try:
        group.all_reduce(x, operator)
    except (ValueError, shmcoll.RankFailed):
        return
    raise AssertionError("no exception")


def refuse_to_send(state: Any) -> Any:
    """Let MPI refuse what this rank sends after an opening. Return what must live as long."""
    kind = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 7)
    send, tag = kind(state.words.item(ISEND // WORD)), state.words.item(DATA_TAG // WORD)
    refusing = kind(lambda *words: 1 if words[4] == tag else send(*words))
    state.words[ISEND // WORD] = ctypes.cast(refusing, ctypes.c_void_p).value
    return refusing


def memory_of_a_failed_call(comm: Any) -> None:
    """MPI may still write the result of a call that has failed, so it stays, though the program drops it."""
    group, last = comm.dup(), comm.size - 1
    x = np.zeros(300_000)
    for _ in range(2):
        group.all_reduce(x)
    state = group._dispatcher.agreement.state
    index = next(ranks.index(last) for ranks in group.nodes if last in ranks)
    partner = group.nodes[0][index]
    out = np.empty_like(x)
    known = weakref.ref(out)
    try:
        if comm.rank == last:
            kept = refuse_to_send(state)
            group.all_reduce(x.view(Subclass), out=out)
        else:
            group.all_reduce(x, out=out)
    except shmcoll.RankFailed as error:
        assert comm.rank != last or (kept and "MPI reports an error" in str(error))
    del out
    gc.collect()
    if comm.rank == partner:
        assert len(state.abandoned()) > 0
        assert known() is not None


def many_forms(comm: Any, counted: Counted) -> None:
    """Native code makes the first call of a form, too."""
    comm.all_reduce(np.ones(1))
    before = counted.calls
    for count in range(1, 120):
        same(comm.all_reduce(np.full(count, 2.0)), np.full(count, 2.0 * comm.size))
    for dimensions in range(1, 33):
        comm.all_reduce(np.ones((1,) * dimensions))
    assert counted.calls == before


def in_place(comm: Any) -> None:
    n, rank = comm.size, comm.rank
    for count in (5, 5_000, 300_000):
        for _ in range(3):
            x = np.arange(float(count))
            assert comm.all_reduce(x, out=x) is x
            same(x, np.arange(float(count)) * n)
            whole = np.zeros(n * count)
            own = whole[rank * count :][:count]
            own[:] = rank
            same(comm.all_gather(own, out=whole), np.repeat(np.arange(float(n)), count))
            x = np.tile(np.arange(float(count)), n) + rank
            own = x[rank * count :][:count]
            assert comm.reduce_scatter(x, out=own) is own
            same(own, np.arange(float(count)) * n + n * (n - 1) // 2)
            x = np.repeat(np.arange(float(n)), count) + 10 * rank
            assert comm.all_to_all(x, out=x) is x
            same(x, np.repeat(np.arange(float(n)) * 10, count) + rank)
            x = np.full(count, float(rank))
            assert comm.collective_permute(x, [(i, (i + 1) % n) for i in range(n)], out=x) is x
            same(x, np.full(count, float((rank - 1) % n)))


def operators_of_long_arrays(comm: Any) -> None:
    """Operators whose arrays are widened, finished at the end, or written by a user, on arrays of several segments."""
    n, added = comm.size, shmcoll.op(lambda a, b: a + b)
    count = 150_000 * n
    for _ in range(2):
        for name, dtype, wanted in (
            ("avg", np.float32, (n + 1) / 2),
            ("sum", np.float16, n * (n + 1) // 2),
            ("land", np.int32, 1),
            ("sum", np.complex64, n * (n + 1) // 2),
        ):
            x = np.full(count, comm.rank + 1).astype(dtype)
            same(comm.all_reduce(x, name), np.full(count, wanted).astype(dtype))
            same(comm.reduce(x, 1, name), np.full(count, wanted).astype(dtype) if comm.rank == 1 else None)
            same(comm.reduce_scatter(x, name), np.full(count // n, wanted).astype(dtype))
        for name, dtype in (("sum", np.float16), ("prod", np.float32)):
            x = np.full(count, comm.rank + 1).astype(dtype)
            fold = np.cumsum if name == "sum" else np.cumprod
            results = fold(np.arange(1, n + 1)).astype(dtype)
            same(comm.scan(x, name), np.full(count, results[comm.rank]))
            same(comm.exscan(x, name), np.full(count, results[comm.rank - 1]) if comm.rank else None)
        same(comm.all_reduce(np.full(count, comm.rank), added), np.full(count, n * (n - 1) // 2))
        same(comm.reduce_scatter(np.full(count, comm.rank), added), np.full(count // n, n * (n - 1) // 2))


def operators_that_do_not_commute(comm: Any) -> None:
    """The ranks are combined in their order, wherever they are, and of half types in the wide one."""
    n, latter = comm.size, shmcoll.op(lambda a, b: a + b - a, commutative=False)
    for dtype in (np.float64, np.float16):
        for count in (1, 500, 150_000 * n):
            x, x_of_last = np.full(count, comm.rank, dtype), np.full(count, n - 1, dtype)
            same(comm.all_reduce(x, latter), x_of_last)
            same(comm.reduce(x, 1, latter), x_of_last if comm.rank == 1 else None)
            same(comm.scan(x, latter), x)
            same(comm.exscan(x, latter), np.full(count, comm.rank - 1, dtype) if comm.rank else None)
            same(comm.reduce_scatter(np.tile(x, n), latter), x_of_last)


def threads(comm: Any) -> None:
    """Blocking calls of two threads, each on a group of its own, beside asynchronous ones of the first."""
    other = comm.dup()

    def calls(group: Any) -> None:
        for i in range(200):
            same(group.all_reduce(np.array([i])), np.array([i * group.size]))

    thread = threading.Thread(target=calls, args=(other,))
    thread.start()
    works = [comm.all_reduce(np.array([i]), async_op=True) for i in range(50)]
    calls(comm)
    same(np.concatenate([work.wait() for work in works]), np.arange(50) * comm.size)
    thread.join()
    other.close()


def mismatch_after_native_calls(comm: Any) -> None:
    """All ranks name both calls, though native code has found that they differ."""
    group = comm.dup()
    for shape in (3, 4, 3, 4):
        group.broadcast(np.ones(shape), 0)
    try:
        group.broadcast(np.ones(3 if comm.rank == comm.size - 1 else 4), 0)
        group.barrier()  # the root does not wait for the others before
    except shmcoll.CollectiveMismatch as error:
        text = str(error)
    assert "float64[4]" in text
    assert f"rank {comm.size - 1} (node " in text
    assert "float64[3]" in text
    assert "short_calls_job.py:" in text


def main() -> None:
    comm = shmcoll.init()
    counted = Counted(comm)
    results(comm, int(sys.argv[1]), counted)
    rows_of_many_ranks(comm, int(sys.argv[1]))
    roots(comm, counted)
    operators(comm, counted)
    operators_of_long_arrays(comm)
    operators_that_do_not_commute(comm)
    many_forms(comm, counted)
    in_place(comm)
    threads(comm)
    mismatch_after_native_calls(comm)
    memory_of_a_failed_call(comm)
    a_function_that_raises(comm)


if __name__ == "__main__":
    main()
