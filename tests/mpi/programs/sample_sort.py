"""Sample sort: the ranks agree on splitters, and each gets the numbers between two of them."""

import numpy as np
from mpi4py import MPI

COUNT = 20_000

comm = MPI.COMM_WORLD
numbers = np.random.default_rng(2).integers(0, 1 << 40, COUNT)
begin, end = COUNT * comm.rank // comm.size, COUNT * (comm.rank + 1) // comm.size
mine = np.sort(numbers[begin:end])

samples = np.empty((comm.size, comm.size), np.int64)
comm.Allgather(mine[:: len(mine) // comm.size][: comm.size].copy(), samples)
splitters = np.sort(samples, axis=None)[comm.size :: comm.size]

counts = np.diff([0, *np.searchsorted(mine, splitters), len(mine)])
arriving = np.empty_like(counts)
comm.Alltoall(counts, arriving)
bucket = np.empty(arriving.sum(), np.int64)
comm.Alltoallv([mine, counts], [bucket, arriving])
bucket.sort()

lengths = np.empty(comm.size, np.int64)
comm.Allgather(np.array([len(bucket)]), lengths)
assert comm.exscan(len(bucket)) == (None if comm.rank == 0 else lengths[: comm.rank].sum())
whole = np.empty(COUNT, np.int64) if comm.rank == 0 else None
comm.Gatherv(bucket, [whole, lengths], root=0)
if comm.rank == 0:
    assert (whole == np.sort(numbers)).all()
    print(f"sample sort: {whole[0]} to {whole[-1]}", flush=True)
