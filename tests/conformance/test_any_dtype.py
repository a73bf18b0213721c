"""Moves take every dtype of fixed size; arithmetic takes those that have kernels."""

import ml_dtypes
import numpy as np
import pytest

from shmcoll import CollectiveMismatch

DTYPES = [
    np.dtype(one)
    for one in (
        "S4",
        "U3",
        "M8[ns]",
        "m8[s]",
        "g",
        "G",
        "V5",
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.int4,
        [("id", "i4"), ("name", "S5"), ("at", "M8[us]")],
        np.dtype([("value", "f8"), ("inner", [("p", ml_dtypes.float8_e5m2, (2,))])], align=True),
    )
]


def drawn(dtype: np.dtype, rows: int, seed: int) -> np.ndarray:
    """Letters, so that the bytes are text, too."""
    letters = np.random.default_rng(seed).integers(65, 91, (rows, 3, dtype.itemsize), np.uint8)
    if dtype.kind == "U":
        return letters[..., ::4].astype(np.uint32).view(dtype)[..., 0]
    return letters.view(dtype)[..., 0]


def same(got, wanted) -> bool:
    """Equal, and NaN where the other is; bytes between the fields of a dtype do not count."""
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return False
    return got.tobytes() == wanted.tobytes() or repr(got.tolist()) == repr(wanted.tolist())  # the latter takes seconds


def move(comm, number: int) -> list[str]:
    """What went wrong with the dtype of this number."""
    dtype, n, me, wrong = DTYPES[number], comm.size, comm.rank, []
    xs = [drawn(dtype, 2 * n, seed) for seed in range(n)]
    x, whole, root = xs[me], np.concatenate(xs), n - 1
    counts = [r + 1 for r in range(n)]
    ends = np.cumsum(counts)
    block = slice(ends[me] - counts[me], ends[me])
    long = np.concatenate([xs[root]] * n)[: ends[-1]]  # which the root scatters
    some, total = [one[: r + 1] for r, one in enumerate(xs)], np.concatenate([one[: r + 1] for r, one in enumerate(xs)])
    at_root = x if me == root else None
    swapped = np.concatenate([one[2 * me :][:2] for one in xs])

    def expect(what: str, got, wanted) -> None:
        if not same(got, wanted):
            wrong.append(f"{dtype}: {what}: {got!r}, not {wanted!r}")

    for later in (False, True):

        def done(got, later: bool = later):
            return got.wait(20) if later else got

        how = {"async_op": later}
        expect("all_gather", done(comm.all_gather(x, **how)), whole)
        expect("all_gather, out", done(comm.all_gather(x, out=np.zeros_like(whole), **how)), whole)
        parts = done(comm.all_gather(x, out=[np.zeros_like(x) for _ in xs], **how))
        expect("all_gather, list", np.concatenate(parts), whole)
        got = done(comm.gather(x, root, **how))
        expect("gather", whole if me != root else got, whole)
        expect("all_to_all", done(comm.all_to_all(x, **how)), swapped)
        expect("all_to_all, axes", done(comm.all_to_all(x, 0, 1, **how)), np.hstack([o[2 * me :][:2] for o in xs]))
        expect("all_to_all, list", done(comm.all_to_all(list(np.split(x, n)), **how)), swapped)
        ring = [(r, (r + 1) % n) for r in range(n)]
        expect("collective_permute", done(comm.collective_permute(x, ring, **how)), xs[me - 1])
        expect("broadcast", done(comm.broadcast(x.copy() if me == root else np.zeros_like(x), root, **how)), xs[root])
        given = at_root if me != 0 else x.copy()  # one with an array, others without
        expect("broadcast without array", done(comm.broadcast(given, root, **how)), xs[root])
        expect(
            "broadcast of one",
            np.asarray(done(comm.broadcast(x[0, 0] if me == root else None, root, **how))),
            np.asarray(xs[root][0, 0]),
        )
        expect("scatter", done(comm.scatter(at_root, root, **how)), xs[root][2 * me :][:2])
        out = np.zeros((2, 3), dtype) if me == 0 else None
        expect("scatter, out", done(comm.scatter(list(np.split(x, n)), root, out=out, **how)), xs[root][2 * me :][:2])
        for axis in (None, 0):

            def flat(array, axis=axis):
                return array if axis == 0 else array.reshape(-1)

            unit = 1 if axis == 0 else 3
            how["axis"] = axis
            got, told = done(comm.all_gather_v(some[me], **how))
            expect("all_gather_v", got, flat(total))
            expect("all_gather_v, counts", told, np.array(counts) * unit)
            got, told = done(comm.gather_v(some[me], root, **how))
            expect("gather_v", got if me == root else flat(total), flat(total))
            got, told = done(comm.all_to_all_v(x, [2 * unit] * n, **how))
            expect("all_to_all_v", got, flat(swapped))
            sent = {"send_counts": [count * unit for count in counts]}
            expect("scatter_v", done(comm.scatter_v(long, root, **sent, **how)), flat(long[block]))
            out = np.zeros((counts[me], 3), dtype) if me == 0 else None
            got = done(comm.scatter_v(long, root, **sent, out=out, **how))
            expect("scatter_v, out", got, flat(long[block]) if out is None else long[block])
            del how["axis"]
    return wrong


@pytest.mark.parametrize("number", range(len(DTYPES)), ids=[str(dtype)[:30] for dtype in DTYPES])
def test_every_collective_that_moves_takes_the_dtype(ranks, number):
    assert ranks(3 if number % 2 else 2, move, number) == [[]] * (3 if number % 2 else 2)


def test_views_of_odd_layout_and_foreign_byte_order_are_moved(ranks):
    def use(comm) -> list[bool]:
        dates = np.arange(12).astype("M8[D]").reshape(3, 4)
        swapped = dates.astype(dates.dtype.newbyteorder())
        whole = np.concatenate([dates.T] * comm.size)
        out = np.zeros((8, 6), dates.dtype)[:, ::2]
        told = [same(comm.all_gather(one), whole) for one in (dates.T, swapped.T)]
        return [*told, comm.all_gather(dates.T, out=out) is out, same(np.ascontiguousarray(out), whole)]

    assert ranks(2, use) == [[True] * 4] * 2


def unlike(comm, number: int) -> str:
    first, second, call = UNLIKE[number]
    with pytest.raises((CollectiveMismatch, ValueError)) as error:
        call(comm, np.zeros((2, 300), [first, second][comm.rank]))
    return str(error.value).partition(": ")[2].partition(". ")[0]


UNLIKE = [
    ("M8[s]", "M8[ms]", lambda comm, x: comm.all_gather(x, out=np.zeros((4, 300), x.dtype))),
    ("M8[s]", "i8", lambda comm, x: comm.all_to_all(x)),
    ([("a", "f4"), ("b", "f4")], [("a", "f4"), ("c", "f4")], lambda comm, x: comm.broadcast(x)),
    ("V4", "S4", lambda comm, x: comm.gather(x)),
    (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, lambda comm, x: comm.all_gather_v(x)),
    ("S3", "V3", lambda comm, x: comm.scatter(x, out=np.zeros((1, 300), x.dtype))),
    ("S3", "V3", lambda comm, x: comm.scatter_v(x, send_counts=[300, 300], out=np.zeros(300, x.dtype))),
    ("u1", "V1", lambda comm, x: comm.collective_permute(x, [(0, 1)])),
]
WORDS = [
    "and a rank passes out: datetime64[s] on rank 0, datetime64[ms] on rank 1; convert x on every rank to the same one",
    "rank 0 called all_to_all(text, dates or records)",
    "broadcast(uint8[2, 300, 8], root=0, of dtype of hash ",
    "the arrays have different dtypes: |V4 on rank 0, |S4 on rank 1; convert x on every rank to the same one, as in x",
    "all_gather_v(uint8[2, 300, 1], of dtype float8_e5m2)",
    "out of rank 1 is uint8[1, 300, 3], of dtype |V3, but rank 0 sends it uint8[1, 300, 3], of dtype |S3",
    "rank 1 receives into an array of uint8, of dtype |V3, but rank 0 sends uint8, of dtype |S3",
    "rank 1 called collective_permute(text, dates or records)",
]


@pytest.mark.parametrize("number", range(len(UNLIKE)))
def test_ranks_with_unlike_dtypes_are_told_before_a_byte_moves(ranks, number):
    told = ranks(2, unlike, number)
    assert told[0] == told[1]
    assert WORDS[number] in told[0]
