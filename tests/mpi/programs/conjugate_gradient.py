"""Conjugate gradient for a Laplace equation in 1-D. A dot product adds the sums of four blocks, each on one rank, so
that all numbers of ranks round alike."""

import numpy as np
from mpi4py import MPI

BLOCKS, LENGTH, STEPS = 4, 60, 80

comm = MPI.COMM_WORLD
right_side = np.random.default_rng(3).random(BLOCKS * LENGTH)


def solved(b, dot, edges):
    """Return the solution after some steps, and the last residual. edges: the neighbours of a vector's ends."""
    x, r, p = np.zeros_like(b), b.copy(), b.copy()
    rho = dot(r, r)
    for _ in range(STEPS):
        left, right = edges(p)
        q = 2 * p - np.concatenate([[left], p[:-1]]) - np.concatenate([p[1:], [right]])
        alpha = rho / dot(p, q)
        x += alpha * p
        r -= alpha * q
        rho, before = dot(r, r), rho
        p = r + rho / before * p
    return x, rho


def block_sums(u, v):
    return (u * v).reshape(-1, LENGTH).sum(axis=1)


def dot(u, v):
    sums = np.zeros(BLOCKS)
    comm.Allgather(block_sums(u, v), sums)
    return np.add.reduce(sums)


def edges(p):
    before = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    after = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    left, right = np.zeros(1), np.zeros(1)
    comm.Sendrecv(p[-1:], after, recvbuf=left, source=before)
    comm.Sendrecv(p[:1], before, recvbuf=right, source=after)
    return left[0], right[0]


mine = np.empty(BLOCKS * LENGTH // comm.size)
comm.Scatter(right_side if comm.rank == 0 else None, mine)
x, rho = solved(mine, dot, edges)
whole = np.empty_like(right_side) if comm.rank == 0 else None
comm.Gather(x, whole)
largest = comm.allreduce(float(np.abs(x).max()), MPI.MAX)
if comm.rank == 0:
    expected, rho_expected = solved(right_side, lambda u, v: np.add.reduce(block_sums(u, v)), lambda p: (0.0, 0.0))
    assert (whole == expected).all() and rho == rho_expected and largest == np.abs(expected).max()
    print(f"conjugate gradient: {rho:.6g}", flush=True)
