"""Run a step of a mixture of experts with the collectives of NKI: tokens travel to their experts, and back.

    shmrun -n 4 examples/nki_experts.py

The ranks form groups of PER_GROUP. Each rank of a group has one expert, and every group has copies of all experts:

    expert lists    contiguous, [[0, 1], [2, 3]]: tokens travel within a list
    copy lists      strided, [[0, 2], [1, 3]]: the ranks with a copy of the same expert

On Trainium the same calls are made in a kernel, and `shmcoll.nki` is `nki`.
"""

import os
import sys

import numpy as np

from shmcoll.nki import collectives as ncc
from shmcoll.nki import language as nl

WIDTH = 16  # numbers in a token
PER_GROUP = 2


def expert(number, tokens):
    """Apply the layer of expert `number` to (n, WIDTH) tokens."""
    weights = np.random.default_rng(number).normal(size=(WIDTH, WIDTH)).astype(np.float32)
    return np.maximum(tokens @ weights, 0)


def route(tokens, experts):
    """Return the number of the expert for each token."""
    return np.argmax(tokens @ np.random.default_rng(99).normal(size=(WIDTH, experts)), axis=1)


def step(tokens, experts, group, here):
    """Return the results for (n, WIDTH) tokens, and how many tokens came to this rank.

    experts: the number of experts, and of ranks in a list of `group`. here: the expert of this rank.
    """
    chosen = route(tokens, experts)
    order = np.argsort(chosen, kind="stable")
    sent = tokens[order]  # those for expert 0 first
    slot = tokens.size  # a rank sends at most all its tokens to one expert

    # Dispatch. Row 0: how many numbers go to each expert; row 1: where they begin; row 2: what has come, afterwards.
    there = np.zeros((3, experts), np.uint32)
    there[0] = np.bincount(chosen, minlength=experts) * WIDTH
    there[1] = np.cumsum(there[0]) - there[0]
    visitors = nl.zeros((experts, slot), nl.float32, buffer=nl.hbm)
    ncc.all_to_all_v([sent], [visitors], group, there)

    for sender, count in enumerate(there[2]):
        come = visitors[sender, :count].reshape(-1, WIDTH)
        come[:] = expert(here, come)

    # Combine. As many numbers go back as have come, from the slots where they are, to where they were sent from.
    back = np.zeros((4, experts), np.uint32)
    back[0], back[1], back[3] = there[2], np.arange(experts) * slot, there[1]
    result = nl.ndarray(sent.shape, nl.float32, buffer=nl.hbm)
    ncc.all_to_all_v([visitors], [result], group, back, recv_counts_known=True, has_rdispls=True)
    return result[np.argsort(order)], int(there[2].sum()) // WIDTH


def main(ranks, n=1000):
    rank, experts = ncc.rank_id(), min(PER_GROUP, ranks)
    if ranks % experts:
        sys.exit(f"{ranks} ranks cannot form groups of {experts}")
    group = ncc.ReplicaGroup.from_partition_op(ranks, ncc.rg_partition_op.div, experts)
    copies = ncc.ReplicaGroup.from_partition_op(ranks, ncc.rg_partition_op.mod, experts)
    tokens = np.random.default_rng(100 + rank).normal(size=(n, WIDTH)).astype(np.float32)

    result, came = step(tokens, experts, group, rank % experts)
    load = np.array([came], np.float32)
    ncc.all_reduce([load], [load], copies, nl.add)  # of all copies of this expert

    chosen = route(tokens, experts)
    dense = sum(expert(i, tokens) * (chosen == i)[:, None] for i in range(experts))
    worst = np.abs(result - dense).max(keepdims=True).ravel()
    ncc.all_reduce([worst], [worst], ncc.ReplicaGroup([list(range(ranks))]), nl.maximum)
    if rank < experts:
        print(f"expert {rank}: {load[0]:.0f} of {ranks * n} tokens; off by {worst[0]:.0e} at most")


if __name__ == "__main__":
    main(int(os.environ.get("WORLD_SIZE", 1)), *map(int, sys.argv[1:]))
