"""Parts of grids, grids without axes, and ranks that are further away, on real ranks."""

import numpy as np
import pytest


def far(comm) -> list:
    grid = comm.grid((3, 2), periods=(False, True))
    every = [grid.coords_of(rank) for rank in range(comm.size)]
    assert [grid.rank_at(coords) for coords in every] == list(range(comm.size))
    return [grid.neighbours(0, 2), grid.neighbours(0, -1), grid.neighbours(1, 3), grid.neighbours(0, 0), every[5]]


def test_ranks_that_are_further_away(ranks):
    assert ranks(6, far) == [
        [(None, 4), (2, None), (1, 1), (0, 0), (2, 1)],
        [(None, 5), (3, None), (0, 0), (1, 1), (2, 1)],
        [(None, None), (4, 0), (3, 3), (2, 2), (2, 1)],
        [(None, None), (5, 1), (2, 2), (3, 3), (2, 1)],
        [(0, None), (None, 2), (5, 5), (4, 4), (2, 1)],
        [(1, None), (None, 3), (4, 4), (5, 5), (2, 1)],
    ]


def parts(comm) -> list:
    """Rows, columns, the whole and single ranks of a grid; each is used for a collective, a shift and a halo."""
    grid, told = comm.grid((2, 1, 2), periods=(True, False, False)), []
    for keep in ((True, False, False), (False, True, True), True, False):
        sub = grid.sub(keep)
        with sub.comm as group:
            total = int(group.all_reduce(np.array([comm.rank]))[0])
            x = np.full((3,) * len(sub.dims), comm.rank)
            told.append((sub.dims, sub.periods, sub.coords, total, sub.exchange(x) is x))
            if keep == (True, False, False):
                told.append((x.tolist(), sub.neighbours(0), repr(sub.graph())))
    return told


def test_parts_of_a_grid(ranks):
    for rank, told in enumerate(ranks(4, parts)):
        other, row = (rank + 2) % 4, rank // 2
        assert told == [
            ((2,), (True,), (row,), rank + other, True),
            ([other, rank, other], (1 - row, 1 - row), told[1][2]),
            ((1, 2), (False, False), (0, rank % 2), 1 + 4 * row, True),
            ((2, 1, 2), (True, False, False), (row, 0, rank % 2), 6, True),
            ((), (), (), rank, True),
        ]
        assert told[1][2].endswith(f"receives from [{1 - row}, {1 - row}], sends to [{1 - row}, {1 - row}]>")


def without_axes(comm) -> list:
    grid = comm.grid(())
    return [
        grid.dims,
        grid.coords,
        grid.rank_at(()),
        grid.coords_of(0),
        repr(grid),
        grid.graph().all_gather([1]).tolist(),
    ]


def test_a_grid_without_axes(ranks):
    assert ranks(1, without_axes) == [
        [(), (), 0, (), "<shmcoll.Grid of 1 ranks, periods (): rank 0 at ()>", []],
    ]


def refused(comm) -> list[str]:
    grid, told = comm.grid((2, 1)), []
    for call in (
        lambda: grid.sub((True,)),
        lambda: grid.sub("yes"),
        lambda: grid.coords_of(2),
        lambda: grid.neighbours(0, 0.5),
        lambda: grid.sub((comm.rank == 0, True)),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
            raise ValueError("nothing")
        told.append(f"{type(caught.value).__name__}: {caught.value}")
    return told


def test_what_is_no_part_of_a_grid_is_refused(ranks):
    zero, one = ranks(2, refused)
    keep = "must be True or False, or one of them for each of 2 axes"
    assert zero == [
        f"ValueError: sub on rank 0: keep (True,) {keep}",
        f"ValueError: sub on rank 0: keep 'yes' {keep}",
        "ValueError: coords_of on rank 0: rank 2 is not a rank of this group of 2; use 0 to 1",
        "TypeError: neighbours on rank 0: distance must be an integer, got float",
        "ValueError: sub on rank 0: keep (True, True) differs from what other ranks of the grid have passed; pass the "
        "same on all ranks",
    ]
    assert one[4] == "ValueError: nothing"  # it keeps no axis along which it has a neighbour
