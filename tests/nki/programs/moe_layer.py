"""A program for `shmrun --nki`: a layer of a mixture of experts, whose tokens travel by each way that NKI has.

All numbers are small integers and multiples of 1/64, so that every sum is exact: the results equal a loop over tokens.
"""

import os

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

HIDDEN, INNER, TOP, PER_RANK, MOST = 8, 16, 2, 2, 13
rng = np.random.default_rng(7)


class Layer:
    """The weights, which all ranks have from one seed; each rank uses those of its own experts only."""

    def __init__(self, experts: int, bias: np.ndarray):
        self.experts, self.bias = experts, bias
        self.gate = rng.integers(-1, 2, (HIDDEN, experts)).astype(np.float32)
        self.up = rng.integers(-1, 2, (experts, HIDDEN, INNER)).astype(np.float32)
        self.down = rng.integers(-1, 2, (experts, INNER, HIDDEN)).astype(np.float32)

    def route(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the experts of each token, and their weights, as (tokens, TOP)."""
        logits = tokens @ self.gate + self.bias
        chosen = np.argsort(-logits, axis=1, kind="stable")[:, :TOP].astype(np.int32)
        shares = np.exp(np.take_along_axis(logits, chosen, 1) / 8)
        return chosen, (np.rint(64 * shares / shares.sum(axis=1, keepdims=True)) / 64).astype(np.float32)

    def mlp(self, expert: int, x: np.ndarray) -> np.ndarray:
        return np.maximum(x @ self.up[expert], 0) @ self.down[expert]

    def dense(self, tokens: np.ndarray) -> np.ndarray:
        """The result by a loop over tokens."""
        result = np.zeros_like(tokens)
        for out, token, chosen, weights in zip(result, tokens, *self.route(tokens), strict=True):
            for expert, weight in zip(chosen, weights, strict=True):
                out += weight * self.mlp(expert, token)
        return result


def begins(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts) - counts


@nki.jit
def exchange(rows, send_counts, come, capacity, group, in_two_parts):
    """Send packed rows to the ranks, and return those that come, packed."""
    width = rows.shape[1]
    metadata = nl.zeros((4, len(come)), dtype=nl.uint32, buffer=nl.shared_hbm)
    metadata[0], metadata[1], metadata[3] = send_counts * width, begins(send_counts) * width, begins(come) * width
    src = nl.ndarray(rows.shape, dtype=rows.dtype, buffer=nl.private_hbm)
    dst = nl.zeros((capacity, width), dtype=rows.dtype, buffer=nl.shared_hbm)
    if in_two_parts:  # the counts are known before the rows are filled
        call = ncc.all_to_all_v_prepare([src], [dst], group, metadata, has_rdispls=True)
        nisa.dma_copy(dst=src, src=rows)
        ncc.all_to_all_v_trigger(call)
    else:
        nisa.dma_copy(dst=src, src=rows)
        ncc.all_to_all_v([src], [dst], group, metadata, has_rdispls=True)
    np.testing.assert_array_equal(metadata[2], come * width)
    return dst


def by_all_to_all_v(layer, tokens, group, ranks, here, in_two_parts=False):
    """Dispatch each pair of a token and an expert in bfloat16, compute, and combine in float32."""
    chosen, weights = layer.route(tokens)
    order = np.argsort(chosen.reshape(-1), kind="stable")
    given = np.bincount(chosen.reshape(-1), minlength=layer.experts).astype(np.uint32).reshape(ranks, PER_RANK)
    come = nl.zeros((ranks, PER_RANK), dtype=nl.uint32, buffer=nl.shared_hbm)
    ncc.all_to_all([given], [come], group, collective_dim=0)
    to, of = given.sum(axis=1), come.sum(axis=1)

    packed = tokens[order // TOP].astype(nl.bfloat16)
    visitors = exchange[2](packed, to, of, int(of.sum()) + 1, group, in_two_parts)
    whose = np.repeat(np.tile(np.arange(PER_RANK), ranks), come.reshape(-1))
    answers = nl.zeros((len(visitors), HIDDEN), dtype=nl.float32, buffer=nl.private_hbm)
    for local in nl.affine_range(PER_RANK):
        rows = np.flatnonzero(whose == local)
        answers[rows] = layer.mlp(here * PER_RANK + local, visitors[rows].astype(nl.float32))
    back = exchange(answers[: len(whose)], of, to, len(order) + 1, group, in_two_parts)[: len(order)]
    result = np.zeros_like(tokens)
    np.add.at(result, order // TOP, weights.reshape(-1)[order][:, None] * back)
    return result


def by_all_to_all_v_in_two_parts(*arguments):
    return by_all_to_all_v(*arguments, in_two_parts=True)


def by_all_gather_v(layer, tokens, group, ranks, here):
    """Gather all tokens on each rank, let it compute what its experts add, and combine by reduce_scatter."""
    counts = nl.zeros((3, ranks), dtype=nl.uint32, buffer=nl.shared_hbm)
    counts[0] = tokens.size
    everyone = nl.zeros((ranks, MOST, HIDDEN), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    ncc.all_gather_v([tokens.astype(nl.bfloat16)], [everyone], group, counts)
    partial = nl.zeros((ranks * MOST, HIDDEN), dtype=nl.float32, buffer=nl.private_hbm)
    for sender, come in enumerate(counts[2] // HIDDEN):
        theirs = everyone[sender, :come].astype(nl.float32)
        chosen, weights = layer.route(theirs)
        for local in nl.affine_range(PER_RANK):
            token, k = np.nonzero(chosen == here * PER_RANK + local)
            answers = weights[token, k][:, None] * layer.mlp(here * PER_RANK + local, theirs[token])
            np.add.at(partial, sender * MOST + token, answers)
    mine = nl.ndarray((MOST, HIDDEN), dtype=nl.float32, buffer=nl.shared_hbm)
    ncc.reduce_scatter([partial], [mine], group, collective_dim=0, op=nl.add)
    return mine[: len(tokens)]


def by_all_gather(layer, tokens, group, ranks, here):
    """The same with padded tokens and an all_reduce, as in decoding with few tokens."""
    padded = nl.zeros((MOST, HIDDEN), dtype=nl.float32, buffer=nl.private_hbm)
    padded[: len(tokens)] = tokens
    everyone = nl.ndarray((ranks * MOST, HIDDEN), dtype=nl.float32, buffer=nl.shared_hbm)
    ncc.all_gather([padded], [everyone], group, collective_dim=0)
    chosen, weights = layer.route(everyone)
    partial = nl.zeros(everyone.shape, dtype=nl.float32, buffer=nl.private_hbm)
    for local in nl.affine_range(PER_RANK):
        token, k = np.nonzero(chosen == here * PER_RANK + local)
        answers = layer.mlp(here * PER_RANK + local, everyone[token])
        np.add.at(partial, token, weights[token, k][:, None] * answers)
    total = nl.ndarray(everyone.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    ncc.all_reduce([partial], [total], group, nl.add)
    return total[here * MOST :][: len(tokens)]


def check(ranks: int, group: ncc.ReplicaGroup, here: int) -> None:
    """Compare each way with a loop over tokens. ranks: those of a list; here: this rank's position."""
    experts = ranks * PER_RANK
    nowhere = np.zeros(experts, np.float32)
    skewed, few = nowhere.copy(), nowhere.copy()
    skewed[0], few[:-2] = 100, -100  # every token chooses expert 0; only the last two experts get tokens
    for name, bias, lengths in (
        ("balanced", nowhere, np.full(ranks, MOST)),
        ("skewed", skewed, rng.integers(1, MOST, ranks)),
        ("experts without tokens", few, rng.integers(0, MOST, ranks)),
        ("ranks without tokens", nowhere, MOST * (np.arange(ranks) % 2)),
        ("no tokens at all", nowhere, np.zeros(ranks, int)),
    ):
        layer = Layer(experts, bias)
        tokens = rng.integers(-3, 4, (ranks, MOST, HIDDEN)).astype(np.float32)[here, : lengths[here]]
        wanted = layer.dense(tokens)
        for way in (by_all_to_all_v, by_all_to_all_v_in_two_parts, by_all_gather_v, by_all_gather):
            result = way(layer, tokens, group, ranks, here)
            np.testing.assert_array_equal(result, wanted, f"{way.__name__}, {name}, {group}")


size, rank = int(os.environ["WORLD_SIZE"]), ncc.rank_id()
check(size, ncc.ReplicaGroup([list(range(size))]), rank)
if size > 2:  # copies of all experts in each half of the job
    half = size // 2
    check(half, ncc.ReplicaGroup.from_partition_op(size, ncc.rg_partition_op.div, half), rank % half)
print(f"rank {rank}: right", flush=True)
