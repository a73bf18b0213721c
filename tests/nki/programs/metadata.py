"""A program for `shmrun --nki`: kernels that build the metadata of all_to_all_v for a mixture of experts.

They have the names, parameters and results that the documentation of NKI-Lib 2.33 describes, and code of their own.
"""

import os

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

HIDDEN, TOP = 6, 2


def begins(counts: np.ndarray) -> np.ndarray:
    """Return where packed blocks of these lengths begin."""
    return np.cumsum(counts) - counts


@nki.jit
def build_all_to_all_v_metadata(expert_index, replica_group_size, E, recv_counts_known=False, has_rdispls=False):
    """Count what each rank gets of a table of experts (tokens, k). Rows 2 and 3 are zeros."""
    metadata = nl.zeros((4 if has_rdispls else 3, replica_group_size), dtype=nl.uint32, buffer=nl.shared_hbm)
    ranks = expert_index.reshape(-1) // (E // replica_group_size)
    metadata[0] = np.bincount(ranks, minlength=replica_group_size)
    metadata[1] = begins(metadata[0])
    return metadata


@nki.jit
def build_all2all_dispatch_metadata(expert_index, num_experts, num_elements_per_token, replica_group_size):
    """Count the elements for each rank. A token for several experts of a rank travels once."""
    metadata = nl.zeros((3, replica_group_size), dtype=nl.uint32, buffer=nl.shared_hbm)
    ranks = expert_index // (num_experts // replica_group_size)
    goes = nl.zeros((len(expert_index), replica_group_size), dtype=nl.uint32, buffer=nl.sbuf)
    for k in nl.static_range(ranks.shape[1]):
        goes[np.arange(len(goes)), ranks[:, k]] = 1
    metadata[0] = goes.sum(axis=0) * num_elements_per_token
    metadata[1] = begins(metadata[0])
    return metadata


@nki.jit
def permute_a2av(hidden_states, packed_source_indices, send_counts, recv_capacity, replica_group):
    """Send rows to the ranks, in the order of `packed_source_indices`. Return what has come, packed, and metadata with
    the received counts in elements."""
    width, ranks = hidden_states.shape[1], send_counts.shape[1]
    packed = nl.ndarray(hidden_states.shape, dtype=hidden_states.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=packed, src=hidden_states[packed_source_indices])
    given, come = (nl.ndarray((ranks, 1), dtype=nl.uint32, buffer=nl.shared_hbm) for _ in range(2))
    nisa.dma_copy(dst=given, src=send_counts)
    ncc.all_to_all([given], [come], replica_group, collective_dim=0)
    metadata = nl.zeros((4, ranks), dtype=nl.uint32, buffer=nl.shared_hbm)
    metadata[0] = send_counts * width
    metadata[1], metadata[3] = begins(metadata[0]), begins(come[:, 0]) * width
    received = nl.zeros((recv_capacity, width), dtype=hidden_states.dtype, buffer=nl.shared_hbm)
    ncc.all_to_all_v([packed], [received], replica_group, metadata, has_rdispls=True)
    return received, metadata


@nki.jit
def unpermute_a2av(output, packed_source_indices, send_counts, recv_counts, replica_group):
    """Send the rows of `permute_a2av` back. Return them in the order in which they were before."""
    width, rows = output.shape[1], len(packed_source_indices)
    metadata = nl.zeros((4, recv_counts.shape[1]), dtype=nl.uint32, buffer=nl.shared_hbm)
    metadata[0] = recv_counts * width
    metadata[1], metadata[3] = begins(metadata[0]), begins(send_counts[0]) * width
    packed = nl.zeros((rows, width), dtype=output.dtype, buffer=nl.private_hbm)
    ncc.all_to_all_v([output], [packed], replica_group, metadata, recv_counts_known=True, has_rdispls=True)
    result = nl.ndarray((rows, width), dtype=output.dtype, buffer=nl.shared_hbm)
    result[packed_source_indices] = packed
    return result


size, rank = int(os.environ["WORLD_SIZE"]), ncc.rank_id()
world, experts = ncc.ReplicaGroup([list(range(size))]), 3 * size
rng = np.random.default_rng(0)

#: tables of experts (tokens, k) of all ranks
CASES = {
    "balanced": [rng.integers(0, experts, (11, TOP)) for _ in range(size)],
    "all to one expert": [np.full((5, TOP), experts - 1) for _ in range(size)],
    "experts without tokens": [rng.integers(0, 2, (7, TOP)) for _ in range(size)],
    "ranks without tokens": [rng.integers(0, experts, (9 * (one % 2), TOP)) for one in range(size)],
}

for name, tables in CASES.items():
    mine = tables[rank].astype(np.int32)
    owners = [table // 3 for table in tables]
    counts = np.array([[(one == p).sum() for p in range(size)] for one in owners])  # by (sender, receiver)
    once = np.array([[(one == p).any(axis=1).sum() for p in range(size)] for one in owners])

    metadata = build_all_to_all_v_metadata(mine, size, experts)
    np.testing.assert_array_equal(metadata, [counts[rank], begins(counts[rank]), np.zeros(size)], name)
    longer = build_all_to_all_v_metadata(mine, replica_group_size=size, E=experts, has_rdispls=True)
    np.testing.assert_array_equal(longer, [*metadata, np.zeros(size)], name)
    short = build_all2all_dispatch_metadata(mine, experts, HIDDEN, size)
    np.testing.assert_array_equal(short[:2], np.stack([once[rank], begins(once[rank])]) * HIDDEN, name)

    # of rows that travel once, the call itself tells how many have come
    sent = [np.concatenate([np.flatnonzero((one == p).any(axis=1)) for p in range(size)]) for one in owners]
    dst = np.full((size, 11), -1.0, np.float32)
    one_each = build_all2all_dispatch_metadata(mine, experts, 1, size)
    ncc.all_to_all_v([sent[rank].astype(np.float32)], [dst], world, one_each)
    assert one_each[2].tolist() == once[:, rank].tolist(), name
    for sender in range(size):
        came = np.flatnonzero((owners[sender] == rank).any(axis=1))
        assert dst[sender].tolist() == [*came, *[-1] * (11 - len(came))], name

    # of each pair of a token and an expert, a row travels there and back
    states = [np.arange(one.size * HIDDEN, dtype=np.float32).reshape(-1, HIDDEN) + one.size for one in owners]
    orders = [np.argsort(one.reshape(-1), kind="stable") for one in owners]
    capacity = counts[:, rank].sum() + 2
    order = orders[rank].astype(np.int32)
    received, metadata = permute_a2av(states[rank], order, metadata[:1], capacity, world)
    wanted = [states[s][orders[s]][np.sort(owners[s].reshape(-1)) == rank] for s in range(size)]
    np.testing.assert_array_equal(received, np.concatenate([*wanted, np.zeros((2, HIDDEN), np.float32)]), name)
    np.testing.assert_array_equal(metadata[2], counts[:, rank] * HIDDEN, name)
    back = unpermute_a2av(2 * received, order, metadata[:1] // HIDDEN, metadata[2:3] // HIDDEN, world)
    np.testing.assert_array_equal(back, 2 * states[rank], name)
print(f"rank {rank}: right", flush=True)
