"""Run a mixture of experts: each token travels to the two experts that its router chose, on whichever rank they are.

    shmrun -n 4 examples/experts.py

How many tokens a rank sends to another is known only after routing. all_to_all_v takes these counts and finds out how
many tokens arrive. The results travel back with the same counts.
"""

import sys

import numpy as np

import shmcoll

WIDTH = 32  # numbers in a token
EXPERTS = 2  # on each rank
CHOSEN = 2  # experts per token


def expert(number, tokens):
    """Apply the two layers of expert `number` to (n, WIDTH) tokens."""
    into, out = np.random.default_rng(number).normal(size=(2, WIDTH, WIDTH)) / WIDTH**0.5
    return np.maximum(tokens @ into, 0) @ out


def route(tokens, experts):
    """Return the best experts of each token and their weights, which add up to one: two (n, CHOSEN) arrays."""
    scores = tokens @ np.random.default_rng(99).normal(size=(WIDTH, experts)) / WIDTH**0.5
    best = np.argsort(-scores, axis=1)[:, :CHOSEN]
    weights = np.exp(np.take_along_axis(scores, best, axis=1))
    return best, weights / weights.sum(axis=1, keepdims=True)


def mixture(comm, tokens):
    """Return the weighted sum of the experts' results for this rank's (n, WIDTH) tokens. n may differ between ranks."""
    best, weights = route(tokens, EXPERTS * comm.size)

    # Dispatch: sort by expert, and so by the rank that has the expert.
    order = np.argsort(best, axis=None, kind="stable")
    numbers, sender = best.ravel()[order], order // CHOSEN
    counts = np.bincount(numbers // EXPERTS, minlength=comm.size)
    visitors, arrived = comm.all_to_all_v(tokens[sender], counts * WIDTH)
    wanted, _ = comm.all_to_all_v(numbers, counts)

    visitors = visitors.reshape(-1, WIDTH)
    for number in range(comm.rank * EXPERTS, (comm.rank + 1) * EXPERTS):
        visitors[wanted == number] = expert(number, visitors[wanted == number])

    # Combine: as much goes back as has arrived, and it returns in the order in which it was sent.
    back, _ = comm.all_to_all_v(visitors, arrived, recv_counts=counts * WIDTH)
    result = np.zeros_like(tokens)
    np.add.at(result, sender, weights.ravel()[order][:, None] * back.reshape(-1, WIDTH))
    return result


def main(n=1000):
    comm = shmcoll.init()
    tokens = np.random.default_rng(comm.rank).normal(size=(n, WIDTH))
    result = mixture(comm, tokens)

    # The same without dispatch: each expert handles all tokens, and most of the results are not used.
    best, weights = route(tokens, EXPERTS * comm.size)
    dense = sum(
        expert(number, tokens) * np.where(best == number, weights, 0).sum(axis=1, keepdims=True)
        for number in range(EXPERTS * comm.size)
    )
    error = comm.all_reduce(np.abs(result - dense).max(), op="max")
    if comm.rank == 0:
        print(f"{comm.size} ranks, {comm.size * EXPERTS} experts, {n} tokens a rank: off by {error:.0e} at most")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
