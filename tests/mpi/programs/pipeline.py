"""A pipeline: blocks go through four stages, which the ranks share, with persistent requests and two buffers."""

import numpy as np
from mpi4py import MPI

STAGES, BLOCKS, LENGTH = 4, 12, 5_000

comm = MPI.COMM_WORLD


def through(block, stages):
    for stage in stages:
        block = np.cumsum(block * (stage + 1) + stage) % 10_007
    return block


mine = range(STAGES * comm.rank // comm.size, STAGES * (comm.rank + 1) // comm.size)
source = comm.rank - 1 if comm.rank else MPI.PROC_NULL
target = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
given = np.random.default_rng(4).integers(0, 1000, (BLOCKS, LENGTH))
arriving, leaving = np.zeros((2, LENGTH), np.int64), np.zeros((2, LENGTH), np.int64)
receives = [comm.Recv_init(buffer, source, 7) for buffer in arriving]
sends = [comm.Send_init(buffer, target, 7) for buffer in leaving]

receives[0].Start()
results = []
for number in range(BLOCKS):
    side = number % 2
    receives[side].Wait()
    if number + 1 < BLOCKS:
        receives[1 - side].Start()
    sends[side].Wait()  # an inactive request is complete
    leaving[side] = through(given[number] if source == MPI.PROC_NULL else arriving[side], mine)
    sends[side].Start()
    results.append(leaving[side].copy())
MPI.Prequest.Waitall(sends)
for request in receives + sends:
    request.Free()

if comm.rank == comm.size - 1:
    expected = np.array([through(block, range(STAGES)) for block in given])
    assert (np.array(results) == expected).all()
    print(f"pipeline: {expected.sum()}", flush=True)
comm.Barrier()
