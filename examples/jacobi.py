"""Compute the temperature of a plate with a hot upper edge by Jacobi's method. Each rank has a strip of rows.

    shmrun -n 4 examples/jacobi.py

A new value is the mean of the four values around it. So a rank needs the row above its strip and the row below: the
halo. all_to_all_v, with counts for the neighbours only, fetches both in one call. all_reduce finds the largest change.
"""

import sys

import numpy as np

import shmcoll


def solve(comm, n, tolerance):
    """Iterate until no point changes by more than `tolerance`. Return this rank's rows of the points, and changes.

    The plate has n x n points. The edge around them is 1 above and 0 elsewhere. n must be a multiple of the number of
    ranks. `changes` has the largest change of any point for each iteration. The result has the same bits for any
    number of ranks.
    """
    if n % comm.size:
        raise ValueError(f"{n} rows cannot be shared out evenly among {comm.size} ranks")
    plate = np.zeros((n // comm.size + 2, n + 2))  # with the halo and the edge around it
    plate[0] = comm.rank == 0
    halo = plate[[0, -1]]

    # The first row goes to the rank above, the last row to the rank below. At the edge of the plate the halo stays.
    counts, places = np.zeros((2, comm.size), np.int64)
    for neighbour, place in ((comm.rank - 1, 0), (comm.rank + 1, n + 2)):
        if 0 <= neighbour < comm.size:
            counts[neighbour], places[neighbour] = n + 2, place

    changes = []
    while not changes or changes[-1] > tolerance:
        comm.all_to_all_v(plate[[1, -2]], counts, places, recv_counts=counts, recv_displs=places, out=halo)
        plate[[0, -1]] = halo
        new = (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]) / 4
        change = np.abs(new - plate[1:-1, 1:-1]).max()
        plate[1:-1, 1:-1] = new
        changes.append(float(comm.all_reduce(change, op="max")))
    return plate[1:-1, 1:-1].copy(), changes


def main(n=48, tolerance=1e-4):
    comm = shmcoll.init()
    rows, changes = solve(comm, int(n), float(tolerance))
    plate = comm.gather(rows, root=0)
    if comm.rank == 0:
        print(f"{comm.size} ranks, {len(plate)} x {len(plate)} points: settled after {len(changes)} iterations")
        for row in plate[:: len(plate) // 12 or 1, :: len(plate) // 24 or 1]:
            print("".join(" .:-=+*#%@"[int(10 * value)] for value in row))


if __name__ == "__main__":
    main(*sys.argv[1:])
