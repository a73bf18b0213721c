# NKI's `all_to_all_v`: each rank sends a different number of elements to each other rank, known only at run time.
# shmrun -n 4 examples/all_to_all_v.py
# The digits of an element are source, target and index: 130 is the first one from rank 1 to rank 3. "...": unused.
import numpy as np

from shmcoll.nki import collectives as nccl

N = 4
SLOT = 3  # how many elements a rank can receive from each rank
rank = nccl.rank_id()

counts = np.random.default_rng(rank).integers(0, SLOT + 1, N)
src = np.concatenate([100 * rank + 10 * to + np.arange(count) for to, count in enumerate(counts)]).astype(np.int32)
dst = np.full(N * SLOT, -1, np.int32)

metadata = np.zeros((3, N), np.uint32)
metadata[0] = counts
metadata[1] = np.cumsum(counts) - counts
nccl.all_to_all_v([src], [dst], nccl.ReplicaGroup([list(range(N))]), metadata)

slots = " | ".join(" ".join(f"{one:03}" if one >= 0 else "..." for one in slot) for slot in dst.reshape(N, SLOT))
print(f"rank {rank} sent {metadata[0]}, received {metadata[2]}: {slots}")
