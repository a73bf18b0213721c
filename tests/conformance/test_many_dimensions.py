"""broadcast of arrays with more dimensions than a header has room for, with and without an array on the other ranks."""

import numpy as np
import pytest

LONG = 1 << 18  # elements: several rounds
SHAPES = [(2,) * 9, (1,) * 31 + (3,), (2, 1, 1, 1, 1, 1, 1, 1, 0), (1,) * 8 + (LONG,), (1,) * 9]


def spread(comm) -> list[str]:
    wrong = []
    for shape in SHAPES:
        for dtype in ("f8", "M8[s]"):
            for root in range(comm.size):
                wanted = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
                for without in (range(comm.size), [0], []):  # ranks other than the root that pass None
                    given = None if comm.rank in without else np.zeros(shape, dtype)
                    got = comm.broadcast(wanted.copy() if comm.rank == root else given, root)
                    if got.shape != shape or got.dtype != wanted.dtype or not (got == wanted).all():
                        wrong.append(f"{shape} {dtype} from {root} on {comm.rank}")
                    if given is not None and comm.rank != root and got is not given:
                        wrong.append(f"{shape}: not the array that was given")
        comm.all_reduce(np.ones(3))
    return wrong


@pytest.mark.parametrize("size", [2, 3])
def test_any_number_of_dimensions_can_be_learnt(ranks, size):
    assert ranks(size, spread) == [[]] * size
