"""A program for `shmrun --nki`: kernels around single collectives, as tensor-parallel layers call them."""

import os

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup


@nki.jit
def all_reduce_kernel(x: nl.NkiTensor, group: ReplicaGroup) -> nl.NkiTensor:
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)  # a collective must not read the arguments of a kernel
    ncc.all_reduce(dsts=[dst], srcs=[src], op=nl.add, replica_group=group)
    nisa.dma_copy(dst=out, src=dst)
    return out


@nki.jit(mode="auto")
def gather_and_scatter_kernel(x, group, ranks: int):
    """Gather rows, add them up, and give each rank its part, which is gathered again along the columns."""
    rows, columns = x.shape
    src = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.private_hbm)
    gathered = nl.zeros((rows * ranks, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    part = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in nl.affine_range(-(-rows // nl.tile_size.pmax)):
        tile = slice(start * nl.tile_size.pmax, min(rows, (start + 1) * nl.tile_size.pmax))
        held = nl.ndarray((tile.stop - tile.start, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=held, src=x[tile], dge_mode=nisa.dge_mode.swdge)
        nisa.tensor_copy(dst=src[tile], src=held, engine=nisa.vector_engine)
    nisa.core_barrier(src, (0, 1))
    ncc.all_gather(srcs=[src], dsts=[gathered], replica_group=group, collective_dim=0)
    ncc.reduce_scatter(srcs=[gathered], dsts=[part], replica_group=group, collective_dim=0, op=nl.add)
    wide = nl.ndarray((rows, columns * ranks), dtype=x.dtype, buffer=nl.shared_hbm)
    ncc.all_gather(srcs=[part], dsts=[wide], replica_group=group, collective_dim=1)
    nisa.dma_copy(dst=part, src=part, dst_rmw_op=nl.add)
    assert nl.program_id(axis=0) == 0 and nl.num_programs(axes=0) == 1
    return wide, part


size, lnc = int(os.environ["WORLD_SIZE"]), 2
rank, group = ncc.rank_id(), ReplicaGroup([list(range(size))])
x = np.arange(6, dtype=np.float32).reshape(3, 2) + 10 * rank
total = sum(np.arange(6, dtype=np.float32).reshape(3, 2) + 10 * one for one in range(size))

np.testing.assert_array_equal(all_reduce_kernel[lnc](x, group), total)
np.testing.assert_array_equal(nki.simulate(all_reduce_kernel)(x, group), total)
wide, part = gather_and_scatter_kernel(x, group, size)
np.testing.assert_array_equal(part, 2 * size * x)
np.testing.assert_array_equal(wide[:, 2 * rank : 2 * rank + 2], size * x)
print(f"rank {rank}: right", flush=True)
