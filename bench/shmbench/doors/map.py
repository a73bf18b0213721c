"""A function of many items through `shmcoll.map` and the libraries that its users come from (`commands/map_door`).

Each way keeps its processes from call to call, except `shmcoll.map` itself, which starts ranks and ends them.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import shmcoll

Way = Callable[[Callable[[Any], Any], Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Work:
    """A function and its items. right: whether a result is that of the item of this number. bytes: of all items and
    results together."""

    name: str
    fn: Callable[[Any], Any]
    items: Sequence[Any]
    right: Callable[[int, Any], bool]
    bytes: int = 0


def tiny(item: int) -> int:
    """Work for about a microsecond."""
    return item + sum(range(40)) - 780


def short(item: int) -> int:
    """Work for half a millisecond."""
    end = time.perf_counter() + 0.0005
    while time.perf_counter() < end:
        pass
    return item


def total(row: np.ndarray) -> float:
    return float(row[::512].sum())


def filled(item: int) -> np.ndarray:
    return np.full(LONG >> 3, item, np.float64)


LONG = 10 << 20  # bytes


def works(quick: bool) -> Iterator[Work]:
    """Yield what is measured. quick: a tenth of it."""
    part = 10 if quick else 1
    yield Work("items of 1 us", tiny, range(20_000 // part), lambda n, value: value == n)
    yield Work("items of 0.5 ms", short, range(400 // part), lambda n, value: value == n)
    rows = np.repeat(np.arange(400.0 // part), 1 << 17).reshape(-1, 1 << 17)
    yield Work("rows of 1 MiB", total, [*rows], lambda n, value: value == 256 * n, rows.nbytes)
    count = 40 // part
    yield Work("results of 10 MiB", filled, range(count), lambda n, value: value[0] == value[-1] == n, count * LONG)


@contextlib.contextmanager
def ways(ranks: int) -> Iterator[Mapping[str, Way]]:
    """Start the processes of each way. `joblib` is left out if it is not installed."""
    import concurrent.futures
    import multiprocessing

    with contextlib.ExitStack() as stack:
        stays = stack.enter_context(shmcoll.ranks(ranks))
        pool = stack.enter_context(multiprocessing.get_context("fork").Pool(ranks))
        executor = stack.enter_context(concurrent.futures.ProcessPoolExecutor(ranks))

        def by_executor(fn: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            return [*executor.map(fn, items, chunksize=max(1, len(items) // (4 * ranks)))]  # as Pool.map does

        found: dict[str, Way] = {"Pool": pool.map, "executor": by_executor}
        if find_spec("joblib"):
            import joblib

            parallel = stack.enter_context(joblib.Parallel(n_jobs=ranks))
            delayed = joblib.delayed
            found["joblib"] = lambda fn, items: parallel(delayed(fn)(item) for item in items)
        yield found | {"map": lambda fn, items: shmcoll.map(fn, items, n=ranks), "ranks": stays.map}
