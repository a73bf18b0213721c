"""Calls on arrays: planned, long, in shared memory, of half the size, and by more ranks than cores."""

from collections.abc import Callable
from functools import partial

import numpy as np

from shmbench.cli.sizes import short_size
from shmbench.collectives.payload import dtype_of
from shmbench.features.memory import ADD, MEMCPY
from shmbench.timing.ab_timing import Contest, Repeated, Row, Settings, beside, job
from shmbench.timing.entries import collective

SIZE = 64 << 20
SIZES = (64 << 10, 4 << 20, SIZE)
WAYS = (  # shared arrays, in place, what is asked
    ("out given", False, False, 1.25),
    ("in place", False, True, 0.95),
    ("shared arrays", True, False, 0.8),
    ("shared, in place", True, True, 0.5),
)
MOVES = (("all_to_all", False, 1.35), ("all_to_all", True, 1.0), ("broadcast", True, 1.0), ("all_gather", True, 1.0))
SHARED_MOVES = (
    *("broadcast", "scatter", "scatter_v", "gather", "gather_v", "all_gather", "all_gather_v"),
    *("all_to_all", "all_to_all_v", "collective_permute"),
)
HALVES = ("bfloat16", "float16")
RANKS = {16: 4e-6, 32: 4e-6, 64: 5.5e-6}  # and what is asked


def plan(contest: Contest) -> list[Row]:
    """Measure the least that a call from Python can cost: a plan of an all_reduce of 8 bytes."""

    def loop(x: np.ndarray, out: np.ndarray) -> Callable[[int], None]:
        plan = contest.comm.plan("all_reduce", x, out=out)

        def run(n: int) -> None:
            for _ in range(n):
                plan()

        return run

    (planned,) = contest.run([collective(contest.comm, "all_reduce", 8, loop=loop)])
    return [Row("plan() of all_reduce, 8", planned.seconds, asked=0.8e-6, wrong=planned.wrong)]


def all_reduce(contest: Contest) -> list[Row]:
    """Measure long arrays, ordinary and shared, beside adding two arrays that every rank has already."""
    comm, size = contest.comm, contest.settings.size(SIZE)
    entries = [collective(comm, "all_reduce", size, shared=shared, in_place=placed) for _, shared, placed, _ in WAYS]
    add, *ours = contest.run([collective(comm, "add", size, kind=ADD), *entries])
    return [
        beside(f"all_reduce {short_size(size)}, {way}", one, "c = a + b, both ranks", add, asked)
        for (way, _, _, asked), one in zip(WAYS, ours, strict=True)
    ]


def moves(contest: Contest) -> list[Row]:
    """Measure moves of long arrays, ordinary and shared ones, beside copies of the same length by all ranks."""
    comm, size = contest.comm, contest.settings.size(SIZE)
    entries = [collective(comm, name, size, shared=shared, in_place=name == "broadcast") for name, shared, _ in MOVES]
    memcpy, *ours = contest.run([collective(comm, "memcpy", size, kind=MEMCPY), *entries])
    return [
        beside(
            f"{name} {short_size(size)}, {'shared arrays' if shared else 'out given'}",
            one,
            "memcpy, both ranks",
            memcpy,
            asked,
        )
        for (name, shared, asked), one in zip(MOVES, ours, strict=True)
    ]


def shared_moves(contest: Contest) -> list[Row]:
    """Measure each collective that moves data, on arrays in shared memory (`comm.empty`) beside ordinary ones."""
    rows = []
    for name in SHARED_MOVES:
        for size in dict.fromkeys(map(contest.settings.size, SIZES)):
            private, shared = contest.run(
                [collective(contest.comm, name, size, shared=s, in_place=name == "broadcast") for s in (False, True)]
            )
            rows.append(beside(f"{name} {short_size(size)}, shared arrays", shared, "private arrays", private))
    return rows


def shared_results(settings: Settings) -> list[Row]:
    """Measure results of which the ranks share one (`shared=True`), beside a new one on each rank, with 8 ranks."""
    return job(settings.ranks(8), _shared_results, settings)


def _shared_results(contest: Contest) -> list[Row]:
    comm, size = contest.comm, contest.settings.size(SIZE)
    whole = np.arange(size // 4, dtype=np.int32)
    part = whole.reshape(comm.size, -1)[comm.rank].copy()
    out, rows = np.empty_like(whole), []
    for name, x, right, asked in (
        ("all_gather", part, whole, 0.35),
        ("gather", part, whole if comm.rank == 0 else None, None),
        ("broadcast", whole if comm.rank == 0 else None, whole, 0.35),
        ("scatter", whole if comm.rank == 0 else None, part, None),
    ):
        call = getattr(comm, name)
        ways = partial(call, x, shared=True), partial(call, x)
        one, other = contest.run([Repeated(way, partial(_mistakes, way, right)) for way in ways])
        what = f"{name} {short_size(size)}, {comm.size} ranks, shared"
        rows.append(beside(what, one, "a result on each rank", other, asked))
    planned, other = contest.run(
        [
            Repeated(way, partial(_mistakes, way, whole))
            for way in (comm.plan("all_gather", part, shared=True), comm.plan("all_gather", part, out=out))
        ]
    )
    what = f"all_gather {short_size(size)}, {comm.size} ranks, shared, planned"
    return [*rows, beside(what, planned, "planned, out given", other, 0.35)]


def _mistakes(call: Callable[[], np.ndarray | None], right: np.ndarray | None) -> int:
    got = call()
    return 0 if right is None or got is None else int((got != right).sum())


def halves(contest: Contest) -> list[Row]:
    """Measure types of half the size, beside as many elements of float32."""
    elements = contest.settings.size(SIZE) // 4
    dtypes = [np.dtype(np.float32), *map(dtype_of, HALVES)]
    single, *halves = contest.run(
        [collective(contest.comm, "all_reduce", elements * dtype.itemsize, dtype) for dtype in dtypes]
    )
    return [
        beside(f"all_reduce of {short_size(elements)} {name}", one, "as many float32", single, 1 / 1.8)
        for name, one in zip(HALVES, halves, strict=True)
    ]


def ranks(settings: Settings) -> list[Row]:
    """Measure more ranks than cores: all_reduce of 8 bytes, the time of a call over the number of ranks."""
    return [row for usual in RANKS for row in job(settings.ranks(usual), _all_reduce_a_rank, settings)]


def _all_reduce_a_rank(contest: Contest) -> list[Row]:
    ranks = contest.comm.size
    (summed,) = contest.run([collective(contest.comm, "all_reduce", 8)])
    each = [seconds / ranks for seconds in summed.seconds]
    return [Row(f"all_reduce 8, {ranks} ranks, a rank", each, asked=RANKS.get(ranks), wrong=summed.wrong)]
