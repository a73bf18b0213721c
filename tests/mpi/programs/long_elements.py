"""Long elements with gaps, packed into memory that is used again: messages, collectives, accumulates."""

import os

import numpy as np
from mpi4py import MPI

from shmcoll.mpi.objects.scratch import MOST_KEPT, POOL, SHORTEST, scratch

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
after, before = (rank + 1) % size, (rank - 1) % size
N = 512
block = MPI.DOUBLE.Create_subarray([N, N], [N // 2, N], [N // 4, 0])  # 1 MiB in one run, and one with gaps
columns = MPI.DOUBLE.Create_subarray([N, N], [N, N // 2], [0, N // 4])
part = np.s_[:, N // 4 : 3 * N // 4]


def matrix(owner, turn):
    return np.arange(N * N, dtype=np.float64).reshape(N, N) + 1000 * owner + turn


for datatype in (block, columns):
    datatype.Commit()

# messages both ways, of one run and with gaps, three times by the same memory
for turn in range(3):
    out = np.zeros((N, N))
    comm.Sendrecv([matrix(rank, turn), 1, columns], after, 7, [out, 1, columns], before, 7)
    assert (out[part] == matrix(before, turn)[part]).all() and not out[:, : N // 4].any()
    coming = comm.Irecv([out, 1, columns], before)
    going = comm.Isend([matrix(rank, turn + 5), 1, columns], after)
    MPI.Request.Waitall([coming, going])
    assert (out[part] == matrix(before, turn + 5)[part]).all()
    status = MPI.Status()
    comm.Sendrecv(matrix(rank, turn), after, 8, out, before, 8, status)
    assert (out == matrix(before, turn)).all()
    assert (status.source, status.tag, status.Get_count(MPI.DOUBLE)) == (before, 8, N * N)
    comm.Sendrecv(matrix(rank, turn), rank, 9, out, rank, 9)
    assert (out == matrix(rank, turn)).all()

# a message that is longer than its receive
comm.Set_errhandler(MPI.ERRORS_RETURN)
try:
    comm.Sendrecv(matrix(rank, 0), after, 1, out[:1], before, 1)
    raise AssertionError("it was not cut")
except MPI.Exception as error:
    assert error.Get_error_class() == MPI.ERR_TRUNCATE
comm.Barrier()

# accumulates, of one run and with gaps: in place, fetched before
window = MPI.Win.Allocate(8 * N * N, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype=np.float64).reshape(N, N)
for datatype, where in ((MPI.DOUBLE, np.s_[:]), (columns, part)):
    count = N * N if datatype == MPI.DOUBLE else 1
    memory[...] = rank
    window.Fence()
    window.Accumulate([matrix(rank, 0), count, datatype], after, [0, count, datatype], MPI.SUM)
    window.Fence()
    expected = np.full((N, N), float(rank))
    expected[where] += matrix(before, 0)[where]
    assert (memory == expected).all()
    window.Fence()
    fetched = np.zeros((N, N))
    window.Get_accumulate(
        [matrix(rank, 1), count, datatype], [fetched, count, datatype], after, [0, count, datatype], MPI.MAX
    )
    window.Fence()
    there = np.full((N, N), float(after))
    there[where] += matrix(rank, 0)[where]
    assert (fetched[where] == there[where]).all()
    expected[where] = np.maximum(expected, matrix(before, 1))[where]
    assert (memory == expected).all()
    window.Fence()
window.Free()

# results that are written where they belong
whole = np.empty(N * N)
comm.Scan(matrix(rank, 0).ravel(), whole)
assert (whole == sum(matrix(other, 0) for other in range(rank + 1)).ravel()).all()
whole[...] = -1
comm.Exscan(matrix(rank, 0).ravel(), whole)
assert (whole == (sum(matrix(other, 0) for other in range(rank)).ravel() if rank else -1)).all()
lengths = [N * N - 8 * (size - 1), *[8] * (size - 1)]
piece = np.empty(lengths[rank])
comm.Reduce_scatter(matrix(rank, 0).ravel(), piece, lengths)
start = sum(lengths[:rank])
assert (piece == sum(matrix(other, 0) for other in range(size)).ravel()[start : start + lengths[rank]]).all()

# memory is lent to one at a time, and used again when nobody refers to it
first, second = scratch(SHORTEST), scratch(SHORTEST)
places = {first.ctypes.data, second.ctypes.data}
assert len(places) == 2
view = first[10:20]
del first, second
third = scratch(SHORTEST)
assert third.ctypes.data in places - {view.ctypes.data - 10}  # what a view refers to is not free
del view
fourth = scratch(SHORTEST)
assert {third.ctypes.data, fourth.ctypes.data} == places
del third, fourth
many = [scratch(MOST_KEPT // 4) for _ in range(8)]
del many
scratch(SHORTEST)
assert sum(kept.size for kept in POOL._kept) <= MOST_KEPT + SHORTEST
if (child := os.fork()) == 0:
    mine = scratch(SHORTEST)
    os._exit(mine.ctypes.data in {kept.ctypes.data for kept in POOL._kept} or mine.base is not None)
assert os.waitpid(child, 0)[1] == 0
if rank == 0:
    print("done")
