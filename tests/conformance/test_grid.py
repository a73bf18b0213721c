"""Grids and halo exchange on real ranks."""

import numpy as np
import pytest


def places(comm) -> list:
    """Where each rank of 3 x 2 is, and who lies around it: the first axis is open, the second a ring."""
    grid = comm.grid((3, 2), periods=(False, True))
    around = [grid.rank_at((grid.coords[0] + i, grid.coords[1] + j)) for i, j in ((-1, -1), (0, 5), (1, 0))]
    return [grid.coords, grid.neighbours(0), grid.neighbours(1), grid.neighbours(-1), around]


def test_ranks_are_numbered_as_in_mpi(ranks):
    assert ranks(6, places) == [
        [(0, 0), (None, 2), (1, 1), (1, 1), [None, 1, 2]],
        [(0, 1), (None, 3), (0, 0), (0, 0), [None, 0, 3]],
        [(1, 0), (0, 4), (3, 3), (3, 3), [1, 3, 4]],
        [(1, 1), (1, 5), (2, 2), (2, 2), [0, 2, 5]],
        [(2, 0), (2, None), (5, 5), (5, 5), [3, 5, None]],
        [(2, 1), (3, None), (4, 4), (4, 4), [2, 4, None]],
    ]


def chosen(comm) -> list:
    return [comm.grid(dims).dims for dims in ((0, 0), (0, 0, 0), (2, 0, 0), (0, 3), 12, [0], np.array([4, 3]).tolist())]


def test_dims_are_chosen_as_in_mpi(ranks):
    """The figures of MPI_Dims_create: as close to each other as can be, in falling order."""
    assert ranks(12, chosen)[5] == [(4, 3), (3, 2, 2), (2, 3, 2), (4, 3), (12,), (12,), (4, 3)]


def again_with_other_arrays(comm) -> list[str]:
    """One grid, arrays of equal shape that are not alike in all else, and of other shapes and widths in between."""
    grid, wrong = comm.grid((comm.size,), periods=True), []
    around = [(comm.rank - 1) % comm.size, comm.rank, (comm.rank + 1) % comm.size]
    for dtype in ("int64", "float32", ">i4", "int64"):
        x = np.full(3, comm.rank, dtype)
        if dtype == ">i4":
            with pytest.raises(ValueError, match="native byte order"):
                grid.exchange(x)
        elif grid.exchange(x).tolist() != around:
            wrong.append(f"{dtype}: {x}")
    for shape, width in (((6,), 2), ((3, 2), 1), ((3,), 1), ((6,), 1), ((6,), 2)):
        x = np.full(shape, comm.rank)
        x[:width] = x[-width:] = -1
        grid.exchange(x, width)
        wanted = np.repeat(around, [width, shape[0] - 2 * width, width]).reshape(-1, *[1] * (x.ndim - 1))
        if (x != wanted).any():
            wrong.append(f"{shape} {width}: {x}")
    return wrong


def test_what_was_checked_once_is_not_taken_for_another(ranks):
    assert ranks(3, again_with_other_arrays) == [[]] * 3


def in_a_group(comm) -> list:
    """Neighbours are ranks of the group."""
    group = comm.split(comm.rank % 2, key=-comm.rank)
    grid = group.grid(2, periods=True)
    return [grid.neighbours(0), grid.exchange(np.array([-1, comm.rank, -1])).tolist()]


def test_a_grid_of_a_group(ranks):
    assert ranks(4, in_a_group) == [
        [(0, 0), [2, 0, 2]],
        [(0, 0), [3, 1, 3]],
        [(1, 1), [0, 2, 0]],
        [(1, 1), [1, 3, 1]],
    ]
