"""Halos and shared arrays of dtypes that routines do not know; grids without axes."""

import ml_dtypes
import numpy as np
import pytest

from shmcoll import CollectiveMismatch, calls

DTYPES = ["M8[D]", "U3", "S5", "V3", "g", [("a", "u1"), ("b", "f4", (2,))], ml_dtypes.float8_e4m3fn]


def filled(dtype, shape, rank: int) -> np.ndarray:
    """An array whose bytes tell the rank and the place."""
    x = np.zeros(shape, dtype)
    x.view(np.uint8).reshape(-1)[:] = (np.arange(x.nbytes) * 7 + 50 * rank) % 100 + 1
    return x


def exchange(comm) -> list[str]:
    """What differs from an exchange of the same bytes as numbers."""
    wrong, grid = [], comm.grid(comm.size, periods=True)
    for dtype in DTYPES:
        for later in (False, True):
            x = filled(dtype, (6, 2), comm.rank)
            number = x.view(np.uint8).reshape(6, -1).copy()
            got = grid.exchange(x, 2, async_op=True).wait(20) if later else grid.exchange(x, 2)
            grid.exchange(number, 2)
            if got is not x or x.tobytes() != number.tobytes():
                wrong.append(f"{dtype}")
    for dtype in ("M8[s]", "f8", "M8[ms]", "f8", "f8"):  # one shape: what was checked before has another dtype
        grid.exchange(np.zeros((6, 2), dtype), 2)
    return wrong


def test_halos_of_any_dtype(ranks):
    assert ranks(2, exchange) == [[]] * 2


def unlike(comm) -> str:
    grid = comm.grid(comm.size)
    with pytest.raises(CollectiveMismatch) as error:
        grid.exchange(np.zeros((3, 2), "M8[ms]" if comm.rank else "M8[s]"))
    return str(error.value)


def test_neighbours_with_unlike_dtypes_are_told(ranks):
    told = ranks(2, unlike)
    assert told[0] == told[1]
    assert "halo_exchange(uint8[3, 2, 8], width=1, grid of hash " in told[0]


def too_many(comm) -> list[str]:
    grid, told = comm.grid(comm.size), []
    for x in (np.zeros((3,) + (1,) * 7, "M8[s]"), np.zeros((3,) + (1,) * 8), np.zeros(3, object)):
        with pytest.raises((TypeError, ValueError)) as error:
            grid.exchange(x)
        told.append(str(error.value))
    grid.exchange(np.zeros((3,) + (1,) * 6, "M8[s]"))
    return told


def test_what_has_no_halo_is_refused(ranks):
    assert ranks(1, too_many)[0] == [
        "halo_exchange on rank 0: x has 8 dimensions, at most 7 are possible of dtype datetime64[s]",
        "halo_exchange on rank 0: x has 9 dimensions, at most 8 are possible of dtype float64",
        "halo_exchange on rank 0: x has dtype object, whose elements have no fixed size; "
        "for objects use comm.sendrecv_object(x, dest)",
    ]


def without_axes(comm) -> list:
    """By the method, and by the call itself."""
    told = []
    for x in (np.array(7.0), np.arange(3), np.array("2020", "M8[Y]"), np.zeros((0, 2))):
        before = x.copy()
        for got in (comm.grid(()).exchange(x), calls.halo_exchange(comm._dispatcher, x, 1, None, (), ())):
            told.append(got is x and (x == before).all())
    return told


def test_a_grid_without_axes_has_no_halo(ranks):
    assert ranks(1, without_axes) == [[True] * 8]


def share(comm) -> list[str]:
    wrong = []
    for dtype in [*DTYPES, "V0"]:
        mine = comm.zeros((2, 3), dtype)
        if mine.dtype != np.dtype(dtype) or mine.tobytes().strip(b"\0"):
            wrong.append(f"zeros of {dtype}")
        wanted = [filled(dtype, (2, 3), rank) if mine.nbytes else mine for rank in range(comm.size)]
        mine[...] = wanted[comm.rank]
        comm.barrier()
        for view, array in zip(comm.views(mine), wanted, strict=True):
            if view.dtype != array.dtype or view.tobytes() != array.tobytes():
                wrong.append(f"view of {dtype}")
        total = comm.all_gather(mine, out=comm.empty((2 * comm.size, 3), dtype))
        if total.tobytes() != np.concatenate(wanted).tobytes():
            wrong.append(f"all_gather of {dtype}")
    if comm.full(2, np.datetime64("2020-01-01")).tolist() != np.full(2, np.datetime64("2020-01-01")).tolist():
        wrong.append("full")
    for make in (lambda: comm.zeros(2, object), lambda: comm.full(2, None), lambda: comm.empty(2, [("a", "O")])):
        with pytest.raises(TypeError) as error:
            make()
        if "have no fixed size; they cannot be in shared memory" not in str(error.value):
            wrong.append(str(error.value))
    return wrong


def test_shared_arrays_of_any_dtype(ranks):
    assert ranks(2, share) == [[]] * 2
