"""Compute a histogram and quantiles of numbers that are distributed over the ranks. The numbers are not moved.

    shmrun -n 4 examples/histogram.py

all_reduce min and max find the smallest and the largest number, so that all ranks use the same bins. all_reduce sum
adds the counts. For the quantiles, each rank sends `SAMPLES` of its numbers to rank 0, evenly spaced in their order.
The share of all numbers below the answer is then wrong by at most 1 / SAMPLES.
"""

import sys

import numpy as np

import shmcoll

SAMPLES = 200


def histogram(comm, numbers, bins):
    """Return (counts, edges) as np.histogram does for the numbers of all ranks, on every rank."""
    lowest = comm.all_reduce(numbers.min(), op="min")
    highest = comm.all_reduce(numbers.max(), op="max")
    counts, edges = np.histogram(numbers, bins, (lowest, highest))
    return comm.all_reduce(counts), edges


def quantiles(comm, numbers, wanted):
    """Return the `wanted` quantiles of the numbers of all ranks, on rank 0. All ranks have equally many numbers."""
    middles = (np.arange(SAMPLES) + 0.5) / SAMPLES
    samples = comm.gather(np.quantile(numbers, middles, method="inverted_cdf"), root=0)
    return None if samples is None else np.quantile(samples, wanted, method="inverted_cdf")


def main(n=100_000):
    comm = shmcoll.init()
    numbers = np.random.default_rng(comm.rank).gamma(3.0, size=n)
    counts, edges = histogram(comm, numbers, bins=16)
    found = quantiles(comm, numbers, [0.25, 0.5, 0.75])
    if comm.rank == 0:
        print(f"{comm.size} ranks, {counts.sum()} numbers; quartiles", *(f"{value:.2f}" for value in found))
        for count, left in zip(counts, edges, strict=False):
            print(f"{left:6.2f} {count:7} {'#' * round(50 * count / counts.max())}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
