"""A histogram and the quantiles of numbers that are spread over the ranks; the numbers themselves stay where they are.

    shmrun -n 4 examples/histogram.py

Smallest and largest by all_reduce min and max, so that all ranks use the same bins; the counts by all_reduce sum. For
the quantiles each rank sends `SAMPLES` of its numbers, evenly spaced in their order, and rank 0 looks them up there:
then the share of all numbers below the answer is wrong by 1 / SAMPLES at most.
"""

import sys

import numpy as np

import shmcoll

SAMPLES = 200


def histogram(comm, numbers, bins):
    """(counts, edges) over the numbers of all ranks, on every rank: what np.histogram says of all together."""
    lowest = comm.all_reduce(numbers.min(), op="min")
    highest = comm.all_reduce(numbers.max(), op="max")
    counts, edges = np.histogram(numbers, bins, (lowest, highest))
    return comm.all_reduce(counts), edges


def quantiles(comm, numbers, wanted):
    """The `wanted` quantiles of the numbers of all ranks, on rank 0. Every rank has equally many numbers."""
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
