"""A program for `shmrun --nki`: loops around collectives, whose bounds and conditions are known at run time only."""

import os

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

WIDTH, CAPACITY = 3, 2


def as_register(value: np.ndarray):
    """Load a number of one element, as a kernel reads a bound that another kernel has computed."""
    held, register = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf), nisa.register_alloc()
    nisa.dma_copy(dst=held, src=value)
    nisa.register_load(register, held)
    return register


@nki.jit
def add_up_tiles(x, first, end, group, step):
    """Add up every `step`-th row from `first` to `end` over the ranks, by one call for each."""
    out = nl.zeros(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    src = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.private_hbm)
    dst = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.private_hbm)

    def tile(i):
        nisa.dma_copy(dst=src, src=x[i])
        ncc.all_reduce(srcs=[src], dsts=[dst], replica_group=group, op=nl.add)
        nisa.dma_copy(dst=out[i], src=dst)

    nl.fori_loop(as_register(first), as_register(end), tile, step=step)
    return out


@nki.jit
def around_the_ring(x, group, ranks):
    """Add up what passes on the ring, and note whose it was."""
    buffers = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2)]
    total = nl.zeros(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    seen = nl.zeros((1, ranks), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=buffers[0], src=x)

    def step(i):
        now, following = buffers[i % 2], buffers[(i + 1) % 2]
        seen[0, i] = ncc.collective_permute_implicit_current_processing_rank_id(i, group)
        total[...] += now
        ncc.collective_permute_implicit([[now]], [[following]], group)

    nl.fori_loop(0, ranks, step)
    return total, seen


@nki.jit
def dispatch_in_rounds(rows, counts, slot, group, ranks):
    """Send counts[p] rows to rank p, at most CAPACITY in a round, until no rank has any left. Return a slot of rows for
    each sender, and the number of rounds."""
    visitors = nl.zeros((ranks, slot, WIDTH), dtype=rows.dtype, buffer=nl.shared_hbm)
    metadata = nl.zeros((4, ranks), dtype=nl.uint32, buffer=nl.shared_hbm)
    left, most = (nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm) for _ in range(2))
    rounds = nl.zeros((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    condition = nisa.register_alloc()
    sent, received = np.zeros(ranks, int), np.zeros(ranks, int)

    def check():
        left[...] = (counts - sent).sum()
        ncc.all_reduce([left], [most], group, nl.maximum)  # equal on all ranks, so that all leave the loop together
        nisa.register_load(condition, most)
        return condition

    def exchange(_):
        now = np.minimum(counts - sent, CAPACITY)
        metadata[0], metadata[1] = now * WIDTH, (np.cumsum(counts) - counts + sent) * WIDTH
        metadata[3] = (np.arange(ranks) * slot + received) * WIDTH
        ncc.all_to_all_v([rows], [visitors], group, metadata, has_rdispls=True)
        sent[:] += now
        received[:] += metadata[2] // WIDTH
        rounds[...] += 1
        return check()

    nl.while_loop(check(), exchange)
    return visitors, rounds


@nki.jit
def as_until_2_32(x, tiles, group):
    """Add up rows over the ranks with the loops of older versions: `dynamic_range`, and `while` with a register."""
    out, register = nl.zeros(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), as_register(tiles)
    for i in nl.dynamic_range(register):
        ncc.all_reduce([x[i : i + 1]], [out[i : i + 1]], group, nl.add)
    while register:
        last = out[int(register) - 1 :][:1]
        ncc.all_reduce([last], [last], group, nl.maximum)
        nisa.register_move(register, int(register) - 1)
    return out


size, rank = int(os.environ["WORLD_SIZE"]), ncc.rank_id()
world = ncc.ReplicaGroup([list(range(size))])
xs = np.arange(size * 8 * WIDTH, dtype=np.float32).reshape(size, 8, WIDTH)

tiles = add_up_tiles(xs[rank], np.array([[1]]), np.array([[6]]), world, step=2)
wanted = np.zeros((8, WIDTH), np.float32)
wanted[1:6:2] = xs.sum(axis=0)[1:6:2]
np.testing.assert_array_equal(tiles, wanted)

lists = ncc.ReplicaGroup.from_partition_op(size, ncc.rg_partition_op.mod, 2)  # each list has a bound of its own
bound = 3 + 4 * (rank % 2)
wanted = np.zeros((8, WIDTH), np.float32)
wanted[:bound] = xs[rank % 2 :: 2].sum(axis=0)[:bound]
np.testing.assert_array_equal(add_up_tiles(xs[rank], np.array([0]), np.array([bound]), lists, step=1), wanted)

total, seen = around_the_ring(xs[rank], world, size)
np.testing.assert_array_equal(total, xs.sum(axis=0))
assert seen[0].tolist() == [(rank - i) % size for i in range(size)]

counts = np.random.default_rng(size).integers(0, 8, (size, size))  # by (sender, receiver)
counts[-1] = 0  # a rank that only receives
rows = [np.repeat(np.arange(size), counts[s])[:, None] + np.full(WIDTH, 10.0 * s, np.float32) for s in range(size)]
visitors, rounds = dispatch_in_rounds(rows[rank], counts[rank], 8, world, size)
for sender in range(size):
    came = counts[sender, rank]
    assert (visitors[sender, :came] == 10.0 * sender + rank).all() and not visitors[sender, came:].any()
assert rounds[0, 0] == -(-counts.max() // CAPACITY)
assert dispatch_in_rounds(rows[rank][:0], 0 * counts[rank], 8, world, size)[1] == 0  # the body never runs

wanted = np.zeros((8, WIDTH), np.float32)
wanted[:5] = xs.sum(axis=0)[:5]
np.testing.assert_array_equal(as_until_2_32(xs[rank], np.array([5]), world), wanted)
print(f"rank {rank}: right", flush=True)
