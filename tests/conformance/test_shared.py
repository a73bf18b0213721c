"""all_reduce of arrays in shared memory, on real ranks."""

import numpy as np
import pytest

COUNTS = (3, 8_200, 30_001, 200_003)  # beside the header; just above what goes flat; not divisible; many blocks


def reduced(comm, in_place: bool) -> list[str]:
    """Every dtype that sums, and some other operators; the bits of private arrays."""
    wrong = []
    for dtype, op in (("float32", "sum"), ("float16", "sum"), ("int8", "prod"), ("float64", "avg"), ("int32", "land")):
        for count in COUNTS:
            rng = np.random.default_rng(comm.rank)
            x = comm.empty(count, dtype)
            x[...] = rng.standard_normal(count) * 9
            wanted = comm.all_reduce(x.copy(), op)
            before = x.copy()
            out = x if in_place else comm.full(count, 77, dtype)
            got = comm.all_reduce(x, op, out=out)
            if got is not out or got.tobytes() != wanted.tobytes():
                wrong.append(f"{dtype} {op} {count}")
            if not in_place and x.tobytes() != before.tobytes():
                wrong.append(f"{dtype} {op} {count}: x has changed")
    return wrong


@pytest.mark.parametrize("in_place", [False, True])
def test_the_bits_are_those_of_private_arrays(ranks, n, in_place):
    assert ranks(n, reduced, in_place) == [[]] * n


def mixed(comm) -> list[bool]:
    """Some ranks have private arrays: all go the other way together."""
    shared, private = comm.full(40_000, comm.rank, "float32"), np.full(40_000, comm.rank, np.float32)
    total = sum(range(comm.size))
    x = shared if comm.rank % 2 else private
    first = comm.all_reduce(x, out=np.empty_like(private) if comm.rank == 0 else comm.empty(40_000, "float32"))
    ring = comm.all_reduce(shared, out=comm.empty(40_000, "float32"), algorithm="ring")
    return [bool((first == total).all()), bool((ring == total).all())]


def test_shared_and_private_arrays_go_together(ranks):
    assert ranks(3, mixed) == [[True, True]] * 3


def overlapping(comm) -> list[str]:
    """A result that is, or touches, an array of another rank."""
    x, out = comm.full(40_000, comm.rank, "float64"), comm.zeros(40_000)
    theirs = comm.views(x)[0], comm.views(out)[1]
    told = []
    for given in ((x, theirs[0]), (x, theirs[1])):
        with pytest.raises(ValueError, match="overlap") as caught:
            comm.all_reduce(given[0], out=given[1])
        told.append(str(caught.value).partition(": ")[2])
        comm.barrier()  # no byte has moved, and the group goes on
    return [*told, float(x.sum()), float(out.sum())]


def test_results_that_overlap_are_refused_on_all_ranks(ranks):
    told = ranks(2, overlapping)
    assert told[0][:2] == [
        "out of rank 0 overlaps out of rank 1; give an out of its own, or out=x",
        "out of rank 0 overlaps out of rank 1; give an out of its own, or out=x",
    ]
    assert told[0][:2] == told[1][:2]
    assert [t[2:] for t in told] == [[0.0, 0.0], [40_000.0, 0.0]]
