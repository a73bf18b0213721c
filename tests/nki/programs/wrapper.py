"""A program for `shmrun --nki`: a wrapper of all_to_all_v for groups inside a job, and the exchange of its counts.

Tokens travel to the experts of a group and back. The received counts come once from the call itself and once from an
all_to_all before it.
"""

import os

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

WIDTH = 4


@nki.jit
def exchange_counts(counts: nl.NkiTensor, group: tuple[int, ...]) -> nl.NkiTensor:
    sent = nl.ndarray((len(group), 1), dtype=nl.uint32, buffer=nl.shared_hbm, name="sent")
    come = nl.ndarray((len(group), 1), dtype=nl.uint32, buffer=nl.shared_hbm, name="come")
    nisa.dma_copy(dst=sent, src=counts.reshape((len(group), 1)))
    ncc.all_to_all(srcs=[sent], dsts=[come], replica_group=ncc.ReplicaGroup([list(group)]), collective_dim=0)
    return come


@nki.jit
def all_to_all_v(
    input: nl.NkiTensor,
    output: nl.NkiTensor,
    group: tuple[int, ...],
    metadata: nl.NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
):
    if metadata.dtype != nl.uint32:
        metadata = metadata.view(nl.uint32)
    source = input if len(input.shape) > 1 else input.reshape((input.shape[0], 1))
    target = nl.ndarray(output.shape, output.dtype, buffer=nl.shared_hbm)
    nisa.memset(target, 0)
    ncc.all_to_all_v(
        srcs=[source],
        dsts=[target],
        replica_group=ncc.ReplicaGroup([list(group)]),
        metadata_tensor=metadata,
        recv_counts_known=recv_counts_known,
        has_rdispls=has_rdispls,
        priority=priority,
    )
    nisa.dma_copy(output, target)
    return output, metadata


rank, size = ncc.rank_id(), int(os.environ["WORLD_SIZE"])
group = tuple(one for one in range(size) if one % 2 == rank % 2)  # strided lists
experts, here = len(group), group.index(rank)
wanted = [1 + (here + expert) % 2 for expert in range(experts)]  # tokens for each expert
tokens = (np.repeat(np.arange(experts), wanted)[:, None] + np.zeros(WIDTH)).astype(np.float32)
slot = tokens.size

there = np.zeros((4, experts), np.int32)
there[0] = np.array(wanted) * WIDTH
there[1] = np.cumsum(there[0]) - there[0]
known = exchange_counts(there[0].view(np.uint32), group)
visitors = np.full((experts, slot), -1, np.float32)
_, metadata = all_to_all_v(tokens, visitors, group, there)
assert metadata[2].tolist() == known[:, 0].tolist() == there[2].tolist()
for sender, count in enumerate(metadata[2]):
    assert (visitors[sender, :count] == here).all() and not visitors[sender, count:].any()

back = np.zeros((1, 4, experts), np.uint32)
back[0, 0], back[0, 1], back[0, 3] = metadata[2], np.arange(experts) * slot, there[1]
result, _ = all_to_all_v[2](visitors, np.empty(tokens.size, np.float32), group, back, True, True, priority=3)
np.testing.assert_array_equal(result, tokens.ravel())
print(f"rank {rank}: right", flush=True)
