"""Multiply matrices that are distributed by rows. No rank ever has all of A or B.

shmrun -n 4 examples/matmul.py

A = [A0 A1 A2 A3]     all_to_all turns rows into columns: rank r now has the columns Ar of A
C = sum of Ar @ Br    rank r has the rows Br of B, which belong to exactly these columns
Cr                    all_to_all gives each rank its rows of each summand, and the rank adds them
"""

import sys

import numpy as np

import shmcoll


def multiply(comm, a, b):
    """Return this rank's rows of A @ B, from its rows of A and of B.

    a: (rows of A / n, k); b: (k / n, columns). n is the number of ranks. The rows of A and k must be multiples of n.
    """
    columns = comm.all_to_all(a, split_axis=1, concat_axis=0)  # (rows of A, k / n)
    summand = columns @ b  # (rows of A, columns)
    mine = comm.all_to_all(summand, split_axis=0, concat_axis=0)  # n blocks of my rows, one below the other
    return mine.reshape(comm.size, len(a), -1).sum(axis=0)


def matrices(rows, k, columns):
    """Return A and B of small integers, so that the product does not depend on the order of additions."""
    random = np.random.default_rng(1)
    return random.integers(-9, 10, (rows, k)).astype(float), random.integers(-9, 10, (k, columns)).astype(float)


def main(width=64):
    comm = shmcoll.init()
    rows, k, columns = 2 * comm.size * width, comm.size * width, 3 * width
    a, b = matrices(rows, k, columns)
    c = multiply(comm, np.split(a, comm.size)[comm.rank], np.split(b, comm.size)[comm.rank])

    product = comm.gather(c, root=0)
    if comm.rank == 0:
        wrong = np.count_nonzero(product != a @ b)
        print(f"{comm.size} ranks: ({rows}, {k}) @ ({k}, {columns}) has {wrong} wrong elements of {product.size}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
