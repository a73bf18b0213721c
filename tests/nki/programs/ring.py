"""A program for `shmrun --nki`: a product of matrices. The left operands travel around a ring."""

import os

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def ring_matmul(mine: nl.ndarray, rhs: nl.ndarray, group: ncc.ReplicaGroup, ranks: int):
    """Return the product of the left operands of all ranks, one below the other, and `rhs`."""
    rows = mine.shape[0]
    buffers = [nl.ndarray(mine.shape, dtype=mine.dtype, buffer=nl.shared_hbm) for _ in range(2)]
    norms = [nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(2)]
    out = nl.ndarray((rows * ranks, rhs.shape[1]), dtype=mine.dtype, buffer=nl.shared_hbm)
    seen = nl.zeros((1, ranks), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=buffers[0], src=mine)
    nisa.memset(norms[0], float(np.abs(mine).sum()), engine=nisa.gpsimd_engine)
    for step in nl.static_range(ranks):
        now, then = buffers[step % 2], buffers[(step + 1) % 2]
        whose = ncc.collective_permute_implicit_current_processing_rank_id(iteration_id=step, replica_group=group)
        if step < ranks - 1:  # each tensor on a channel of its own
            ncc.collective_permute_implicit(srcs_by_channel=[[now]], dsts_by_channel=[[then]], replica_group=group)
            ncc.collective_permute_implicit(
                srcs_by_channel=((norms[step % 2],),),
                dsts_by_channel=((norms[(step + 1) % 2],),),
                replica_group=group,
                channel_ids=(1,),
            )
        nisa.dma_copy(dst=out[whose * rows : (whose + 1) * rows], src=now @ rhs)
        seen[0, whose] = norms[step % 2][0, 0]
    return out, seen


size = int(os.environ["WORLD_SIZE"])
rank, group = ncc.rank_id(), ncc.ReplicaGroup([list(range(size))])
lefts = [np.arange(6, dtype=np.float32).reshape(2, 3) + one for one in range(size)]
rhs = np.arange(12, dtype=np.float32).reshape(3, 4) * (rank + 1)
product, norms = ring_matmul(lefts[rank], rhs, group, size)
np.testing.assert_array_equal(product, np.concatenate(lefts) @ rhs)
np.testing.assert_array_equal(norms[0], [np.abs(one).sum() for one in lefts])
print(f"rank {rank}: right", flush=True)
