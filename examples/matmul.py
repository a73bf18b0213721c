"""A matrix product of matrices that are distributed by rows: no rank ever has the whole of A or B.

shmrun -n 4 examples/matmul.py

A = [A0 A1 A2 A3]     all_to_all turns rows into columns: rank r now has the columns Ar of A
C = sum of Ar @ Br    Br, the rows of B that rank r has, meet exactly those columns
Cr                    all_to_all hands every rank its rows of each summand, and it adds them up
"""

import sys

import numpy as np

import shmcoll


def multiply(comm, a, b):
    """This rank's rows of A @ B, from its rows of A and of B.

    a: (rows of A / n, k); b: (k / n, columns). n, the number of ranks, divides the rows of A and k.
    """
    columns = comm.all_to_all(a, split_axis=1, concat_axis=0)  # (rows of A, k / n)
    summand = columns @ b  # (rows of A, columns)
    mine = comm.all_to_all(summand, split_axis=0, concat_axis=0)  # n blocks of my rows, one below the other
    return mine.reshape(comm.size, len(a), -1).sum(axis=0)


def matrices(rows, k, columns):
    """A and B of small integers, so that every order of adding gives the same product."""
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
