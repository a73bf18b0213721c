"""Reductions of shared arrays: reduce, reduce_scatter, scan and exscan read all arrays where they are.

See `engine/protocol/reduction.py`. Bits are those of the algorithms for private arrays.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support import switches

LENGTHS = (30_240, 200_160)  # elements: one round of cells, and several
KINDS = ((np.float32, "sum"), (np.float64, "avg"), (ml_dtypes.bfloat16, "sum"), (np.int32, "max"), (np.bool_, "lxor"))


def compare(comm: Any) -> bool:
    for length in LENGTHS:
        for dtype, op in KINDS:
            compare_one(comm, length, dtype, op)
    return True


def compare_one(comm: Any, length: int, dtype: Any, op: str) -> None:
    """Reduce shared arrays, with results of every kind; each result has the bits of the private algorithm."""
    n, me = comm.size, comm.rank
    values = (np.random.default_rng([me, length]).standard_normal(length) * 9).astype(dtype)
    private, x, out = values.copy(), comm.full(length, values), comm.empty(length, dtype)
    in_place, part = comm.full(length, values), length // n

    def same(result: Any, wanted: Any) -> None:
        assert switches.exposed(comm) > 0
        assert result.tobytes() == wanted.tobytes(), (op, dtype, length)
        assert x.tobytes() == values.tobytes(), "x has changed"

    root = length % n
    wanted = comm.reduce(private, root, op)
    for result in (out if me == root else None, np.empty_like(private) if me == root else None):
        got = comm.reduce(x, root, op, out=result)
        same(got if me == root else out, wanted if me == root else out)
    comm.reduce(in_place, root, op, out=in_place if me == root else None)
    assert switches.exposed(comm) > 0
    assert in_place.tobytes() == (wanted if me == root else values).tobytes()
    wanted = comm.reduce_scatter(private[: n * part], op)
    same(comm.reduce_scatter(x[: n * part], op, out=out[:part]), wanted)
    in_place[:] = values
    comm.reduce_scatter(in_place[: n * part], op, out=in_place[me * part : (me + 1) * part])
    assert in_place[me * part : (me + 1) * part].tobytes() == wanted.tobytes()
    if op == "avg":
        return  # it has no running form
    wanted = comm.scan(private, op)
    same(comm.scan(x, op, out=out), wanted)
    in_place[:] = values
    assert comm.scan(in_place, op, out=in_place).tobytes() == wanted.tobytes()
    wanted = comm.exscan(private, op)
    got = comm.exscan(x, op, out=out if me else None)
    same(got if me else out, wanted if me else out)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_bits_are_those_of_private_arrays(ranks: Any, size: int) -> None:
    assert all(ranks(size, compare, environment={"SHMCOLL_RING_BYTES": "1", "SHMCOLL_FLAT_BYTES": "1"}))


def test_one_private_array_is_enough(ranks: Any) -> None:
    """Then all ranks use the algorithm for private arrays."""

    def work(comm: Any) -> bool:
        x = comm.full(30_000, comm.rank + 1) if comm.rank else np.full(30_000, comm.rank + 1)
        for _ in range(3):
            assert comm.rank or (comm.reduce(x, 0) == 6).all()
            assert not comm.rank or comm.reduce(x, 0) is None
            assert (comm.reduce_scatter(x) == 6).all()
            assert (comm.scan(x) == (1, 3, 6)[comm.rank]).all()
        return True

    assert all(ranks(3, work))


@pytest.mark.parametrize("name", ["reduce", "reduce_scatter", "scan", "exscan"])
def test_results_that_overlap_the_array_of_another_rank(ranks: Any, name: str) -> None:
    """It is refused on all ranks, before a byte moves, and the group goes on."""

    def work(comm: Any) -> tuple[str, bool]:
        mine = comm.full(40_000, comm.rank)
        theirs = comm.views(mine)[0]
        arguments = (1,) if name == "reduce" else ()
        out = theirs[10_000 : 20_000 if name == "reduce_scatter" else 30_000] if comm.rank else None
        with pytest.raises(ValueError, match="overlaps") as told:
            getattr(comm, name)(mine[:20_000], *arguments, out=out)
        comm.barrier()
        return str(told.value), bool((mine == comm.rank).all())

    for text, unchanged in ranks(2, work):
        assert text.startswith(f"{name} #")
        assert text.endswith(": out of rank 1 overlaps x of rank 0; give an out of its own")
        assert unchanged
