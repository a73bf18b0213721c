"""What each rank of a job over nodes runs to try short calls: native code makes them, or Python, or some ranks each. It
asserts. Argument: the seed."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import shmcoll

Arrays = list[np.ndarray]


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
    "broadcast": (lambda comm, x: comm.broadcast(x, 1), lambda xs, _: xs[1]),
}


class Counted:
    """Counts the calls that native code leaves to Python."""

    def __init__(self, comm: Any) -> None:
        self.calls = 0
        self._go_on, dispatcher = comm._dispatcher.go_on, comm._dispatcher
        dispatcher.go_on = self

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        return self._go_on(*arguments)


def same(found: Any, wanted: np.ndarray | None) -> None:
    assert (found is None) == (wanted is None), (found, wanted)
    if wanted is not None:
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted), (found, wanted)


def results(comm: Any, seed: int, counted: Counted) -> None:
    """Every operation with arrays of all lengths around the limits, on all ways."""
    n, most = comm.size, comm._dispatcher.agreement.most_row
    for name, (call, wanted) in OPERATIONS.items():
        for dtype in (np.float64, np.int16):
            for length in (0, 8, 200, 240, 248, 4096, most, most + 16 * n):
                count = length // np.dtype(dtype).itemsize // n * n
                rng = np.random.default_rng([seed, count])
                xs = [rng.integers(-9, 9, count).astype(dtype) for _ in range(n)]
                for way in ("first", "native", "mixed", "in Python"):
                    x, before = xs[comm.rank].copy(), counted.calls
                    by_python = way == "in Python" or (way == "mixed" and comm.rank % 2)
                    given = x.view(Subclass) if by_python else x
                    same(call(comm, given), wanted(xs, comm.rank))
                    if way == "native" and length <= min(most, 64 << 10):
                        assert counted.calls == before, (name, length)
                    assert not by_python or counted.calls == before + 1


class Subclass(np.ndarray):
    """An array that native code does not read."""


def operators(comm: Any) -> None:
    """All operators that have kernels, on types that are widened and others, twice: in Python, then as it comes."""
    for name in ("sum", "prod", "max", "min", "avg", "land", "bxor"):
        for dtype in (np.float32, np.float16, np.int8, np.complex128, np.bool_):
            x = np.full(6, comm.rank + 1).astype(dtype)
            try:
                first = comm.all_reduce(x.view(Subclass), name)
            except (TypeError, ValueError):
                continue
            for _ in range(2):
                same(comm.all_reduce(x, name), first)


def many_forms(comm: Any, counted: Counted) -> None:
    """More forms of calls than the table has entries, in turn: each is right whether its marks are known or not."""
    for _ in range(2):
        for count in range(1, 120):
            same(comm.all_reduce(np.full(count, 2.0)), np.full(count, 2.0 * comm.size))
    before = counted.calls
    for _ in range(3):
        comm.all_reduce(np.ones((2, 1, 1, 1, 2)))  # of more dimensions than a key
    assert counted.calls == before + 3


def in_place(comm: Any) -> None:
    for _ in range(3):
        x = np.arange(5.0)
        assert comm.all_reduce(x, out=x) is x
        same(x, np.arange(5.0) * comm.size)
        whole = np.zeros(comm.size)
        whole[comm.rank] = comm.rank
        own = whole[comm.rank : comm.rank + 1]
        same(comm.all_gather(own, out=whole), np.arange(float(comm.size)))


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
    operators(comm)
    many_forms(comm, counted)
    in_place(comm)
    threads(comm)
    mismatch_after_native_calls(comm)


if __name__ == "__main__":
    main()
