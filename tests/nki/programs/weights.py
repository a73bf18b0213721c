"""A program for `shmrun --nki`: layers whose weights are sharded over the ranks, and gathered into shared_hbm for use.

The gathered weights are one tensor for all ranks. A rank that changes them changes its own only.
"""

import os

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS, COLUMNS, LAYERS = 256, 1024, 3  # of a shard of 1 MiB


@nki.jit
def forward(x, shards, group, ranks):
    """Apply all layers to x, with a scratch tensor for the weights of one layer at a time."""
    shard = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.private_hbm)
    weights = nl.ndarray((ROWS * ranks, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm, name="weights")
    totals = nl.zeros((LAYERS, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)

    def layer(i):
        nisa.dma_copy(dst=shard, src=shards[i])
        ncc.all_gather(srcs=[shard], dsts=[weights], replica_group=group, collective_dim=0)
        totals[i] = x @ weights

    nl.fori_loop(0, LAYERS, layer)
    return totals, weights


size, rank = int(os.environ["WORLD_SIZE"]), ncc.rank_id()
world = ncc.ReplicaGroup([list(range(size))])
rng = np.random.default_rng(3)
whole = rng.integers(-2, 3, (LAYERS, ROWS * size, COLUMNS)).astype(np.float32)
x = rng.integers(-2, 3, (size, ROWS * size)).astype(np.float32)[rank]
mine = whole[:, rank * ROWS : (rank + 1) * ROWS]

for _ in range(2):
    totals, weights = forward(x, mine, world, size)
    np.testing.assert_array_equal(totals, [x @ one for one in whole])
    np.testing.assert_array_equal(weights, whole[-1])
    weights[:, rank] = 100 + rank  # as a rank that prunes a column of its own
    done = np.ones(1, np.float32)
    ncc.all_reduce([done], [done], world, nl.add)
    changed = whole[-1].copy()
    changed[:, rank] = 100 + rank
    np.testing.assert_array_equal(weights, changed)
print(f"rank {rank}: right", flush=True)
