"""Sums of arrays as objects. The ranks may add them as arrays; the result is that of `operator.add` in rank order on
one rank, to the bit, with what numpy says of infinite sums."""

import operator
import warnings
from functools import reduce

import numpy as np
import pytest

from shmcoll.errors import OperatorFailed
from tests.support.switches import LEAST_ALONE, LEAST_MOVED

COUNT = LEAST_MOVED // 8


def drawn(kind: str, count: int, rank: int) -> np.ndarray:
    rng = np.random.default_rng((rank, count))
    if kind[0] in "fc":
        return (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).astype(kind)
    return rng.integers(0, 2**63, count, np.uint64).astype(kind)


def equal(got: np.ndarray, right: np.ndarray) -> bool:
    alike = type(got) is type(right) and got.dtype == right.dtype and got.shape == right.shape
    return (
        alike and got.flags.writeable and np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(right).tobytes()
    )


def test_sums_have_the_bits_of_the_operator(ranks, n) -> None:
    def check(comm) -> list[str]:
        wrong = []
        for kind in ("f4", "f8", "f2", "c16", "i1", "u2", "i8", "u8", "?"):
            for count in (3, LEAST_ALONE, COUNT):
                given = [drawn(kind, count, rank) for rank in range(n)]
                for shape in ((count,), (-1, 1), (1, count, 1)):
                    arrays = [one.reshape(shape) for one in given]
                    right, mine = reduce(operator.add, arrays), arrays[comm.rank].copy()
                    if not equal(comm.all_reduce_object(mine), right) or mine.tobytes() != arrays[comm.rank].tobytes():
                        wrong.append(f"all_reduce_object of {kind}, {count}")
                    got = comm.reduce_object(mine, root=n - 1)
                    if not (equal(got, right) if comm.rank == n - 1 else got is None):
                        wrong.append(f"reduce_object of {kind}, {count}")
        return wrong

    assert ranks(n, check) == [[]] * n


def test_arrays_that_are_not_alike(ranks) -> None:
    """Of other shapes, dtypes, layouts or classes on one rank: the operator adds these, too."""

    def check(comm) -> list[str]:
        base, wrong = np.arange(COUNT * 1.0).reshape(-1, 8), []
        for name, other in {
            "a row": base[:1],
            "a number": 2.5,
            "single precision": base.astype("f4"),
            "integers": base.astype("i8"),
            "big-endian": base.astype(">f8"),
            "Fortran": np.asfortranarray(base),
            "a matrix": base.view(np.matrix),
            "no dimension": np.zeros(()),
        }.items():
            for pair in ([base, other], [other, base], [other, other]):
                right = pair[0] + pair[1]
                got = comm.all_reduce_object(pair[comm.rank])
                flags = [getattr(one, "flags", None) and one.flags.c_contiguous for one in (got, right)]
                if type(got) is not type(right) or flags[0] != flags[1] or not np.array_equal(got, right):
                    wrong.append(name)
        return wrong

    assert ranks(2, check) == [[]] * 2


def test_the_operator_of_the_rank_that_computes_is_used(ranks) -> None:
    def check(comm) -> list[float]:
        given = np.full(COUNT, 3.0 + comm.rank)
        ops = (operator.add, operator.mul)
        mixed = [comm.all_reduce_object(given, ops[(comm.rank + i) % 2]) for i in range(2)]
        return [float(one[-1]) for one in (*mixed, comm.all_reduce_object(given, np.subtract))]

    assert ranks(2, check) == [[7.0, 12.0, -1.0]] * 2


def test_sums_that_are_no_numbers(ranks) -> None:
    """numpy warns, or raises if asked, on rank 0, which computes; all ranks get the same bits or the error."""

    def check(comm) -> list:
        told = []
        for first, second in ((1.7e308, 1.7e308), (np.inf, -np.inf), (np.inf, 1.0), (np.nan, 1.0)):
            given = np.ones(COUNT)
            given[COUNT // 2] = (first, second)[comm.rank]
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                got = comm.all_reduce_object(given)
            told.append((str(got[COUNT // 2]), [str(one.message) for one in seen]))
        with np.errstate(all="raise" if comm.rank == 0 else "ignore"), pytest.raises(OperatorFailed) as caught:
            comm.all_reduce_object(np.full(COUNT, 1.7e308))
        return [told, "overflow encountered in add" in str(caught.value), comm.all_reduce_object(1)]

    found = ["inf", "nan", "inf", "nan"]
    said = [["overflow encountered in add"], ["invalid value encountered in add"], [], []]
    first, second = ranks(2, check)
    assert first == [list(zip(found, said, strict=True)), True, 2]
    assert second == [[(one, []) for one in found], True, 2]
