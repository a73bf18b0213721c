"""Every function of nki.collectives against a numpy model: on the world and on several kinds of rank-lists."""

import ml_dtypes
import numpy as np
import pytest

from shmcoll.nki import collectives as ncc
from shmcoll.nki import language as nl
from shmcoll.nki.collectives import ReplicaGroup, rg_partition_op

FLOAT8 = (ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2, ml_dtypes.float8_e3m4)
DTYPES = (np.float32, np.int32, ml_dtypes.bfloat16, *FLOAT8)
MODELS = {nl.add: np.sum, nl.minimum: np.min, nl.maximum: np.max}


def groups(n: int) -> list[ReplicaGroup]:
    """The world in order and not, contiguous and strided lists, lists of unequal length, and a subset."""
    found = [ReplicaGroup([list(range(n))]), ReplicaGroup([list(range(n))[::-1]])]
    if n > 1:
        found += [
            ReplicaGroup.from_partition_op(n, op, max(n // 2, 1)) for op in (rg_partition_op.div, rg_partition_op.mod)
        ]
        found += [ReplicaGroup([[0], list(range(n - 1, 0, -1))]), ReplicaGroup([[n - 1, 0][: n // 2]])]
    return found


class Call:
    """One call as this rank makes it. The inputs of all positions of the list come from one seed."""

    def __init__(self, seed: int, group: ReplicaGroup, ranks: list[int], rank: int, dtype: type):
        self.rng = np.random.default_rng([seed, *ranks])
        self.group, self.n, self.p, self.dtype = group, len(ranks), ranks.index(rank), dtype

    def values(self, *shape: int) -> np.ndarray:
        """The arrays of all positions. The sums of a few such numbers are exact in every dtype."""
        return self.rng.integers(0, 3, (self.n, *shape)).astype(self.dtype)

    def nothing(self, *shape: int) -> np.ndarray:
        return np.full(shape, 7).astype(self.dtype)

    def op(self):
        return list(MODELS)[self.rng.integers(3)]


def model(op, values: np.ndarray) -> np.ndarray:
    """Reduce over positions; float8 and bfloat16 in float32."""
    wide = np.float32 if values.dtype.itemsize < 4 else values.dtype
    return MODELS[op](values.astype(wide), axis=0).astype(values.dtype)


def all_reduce(call):
    op, x, y = call.op(), call.values(3, 2), call.values(5)
    dsts = [call.nothing(3, 2), call.nothing(5)]
    ncc.all_reduce([x[call.p], y[call.p]], dsts, call.group, op, priority=np.int64(1))
    return [(dsts[0], model(op, x)), (dsts[1], model(op, y))]


def all_gather(call):
    x, y = call.values(2, 3), call.values(1)
    dsts = [call.nothing(2 * call.n, 3), call.nothing(call.n)]
    ncc.all_gather([x[call.p], y[call.p]], dsts, call.group, 0)
    columns = call.nothing(2, 3 * call.n)
    ncc.all_gather([x[call.p]], [columns], call.group, collective_dim=1)
    return [(dsts[0], np.concatenate(x)), (dsts[1], y[:, 0]), (columns, np.concatenate(x, axis=1))]


def reduce_scatter(call):
    op, x, y = call.op(), call.values(2 * call.n, 3), call.values(call.n)
    dsts = [call.nothing(2, 3), call.nothing(1)]
    ncc.reduce_scatter([x[call.p], y[call.p]], dsts, call.group, 0, op)
    mine = call.p
    return [(dsts[0], np.split(model(op, x), call.n)[mine]), (dsts[1], model(op, y)[mine : mine + 1])]


def all_to_all(call):
    x, y = call.values(2 * call.n, 3), call.values(call.n)
    dsts = [call.nothing(2 * call.n, 3), call.nothing(call.n)]
    ncc.all_to_all([x[call.p], y[call.p]], dsts, call.group, 0)
    return [(dsts[0], np.concatenate([np.split(one, call.n)[call.p] for one in x])), (dsts[1], y[:, call.p])]


def counted(call, function, *, rows: int, known: bool, one_block: bool):
    """A `_v` call. Tables are by (sender, receiver)."""
    n, p, slot = call.n, call.p, 4
    counts = call.rng.integers(0, slot + 1, (n, n))
    displs = call.rng.integers(0, 3, (n, n))
    if one_block:
        counts, displs = (np.repeat(table[:, :1], n, axis=1) for table in (counts, displs))
    places = call.rng.permutation(n) * slot if rows == 4 else np.arange(n) * slot
    sources, dst = call.values(slot + 3), call.nothing(slot * n + (n > 1))  # not divisible by n
    metadata = np.full((rows, n), 99, np.uint32)
    metadata[0], metadata[1] = counts[p], displs[p]
    if one_block:
        metadata[:2, 1:] = 2**32 - 1  # never read
    metadata[3:] = places
    wanted, told = dst.copy(), metadata.copy()
    told[2] = metadata[2] if known else counts[:, p]
    for s in range(n):
        begin, count = displs[s, p], counts[s, p]
        wanted[places[s] : places[s] + count] = sources[s, begin : begin + count]
    given = metadata if p % 2 else metadata[None]
    src = sources[p]
    function([src], [dst], call.group, given, known, rows == 4)
    return [(dst, wanted), (metadata, told)]


def all_to_all_v(call):
    return counted(call, ncc.all_to_all_v, rows=3, known=False, one_block=False) + counted(
        call, ncc.all_to_all_v, rows=4, known=True, one_block=False
    )


def all_gather_v(call):
    return counted(call, ncc.all_gather_v, rows=3, known=True, one_block=True) + counted(
        call, ncc.all_gather_v, rows=4, known=False, one_block=True
    )


def in_two_parts(prepare, trigger):
    """The plain form of a split call. The source is filled after the prepare, and the metadata changed."""

    def function(srcs, dsts, group, metadata, known, has_rdispls):
        ready = srcs[0].copy()
        srcs[0][:] = 0
        given = metadata.copy()
        instruction = prepare(srcs, dsts, group, metadata, known, has_rdispls)
        metadata[..., :2, :] = 3
        srcs[0][:] = ready
        assert trigger(instruction) is instruction
        metadata[..., :2, :] = given[..., :2, :]

    return function


def all_to_all_v_split(call):
    function = in_two_parts(ncc.all_to_all_v_prepare, ncc.all_to_all_v_trigger)
    return counted(call, function, rows=4, known=False, one_block=False)


def all_gather_v_split(call):
    function = in_two_parts(ncc.all_gather_v_prepare, ncc.all_gather_v_trigger)
    return counted(call, function, rows=3, known=False, one_block=True)


def collective_permute_implicit(call):
    x, y = call.values(3), call.values(2, 2)
    dsts = [[call.nothing(3)], [call.nothing(2, 2)]]
    ncc.collective_permute_implicit([[x[call.p]], [y[call.p]]], dsts, call.group, channel_ids=[0, 1])
    before = (call.p - 1) % call.n
    return [(dsts[0][0], x[before]), (dsts[1][0], y[before])]


def collective_permute_implicit_reduce(call):
    op, x, y, dst = call.op(), call.values(3), call.values(3), call.nothing(3)
    ncc.collective_permute_implicit_reduce([[x[call.p]]], [[y[call.p]]], [[dst]], call.group, op)
    before = (call.p - 1) % call.n
    return [(dst, model(op, np.stack([x[before], y[before]])))]


def ring_all_gather(call):
    """AWS's ring: after i steps the data of the rank that the helper names are here."""
    x = call.values(3)
    result, current, following = call.nothing(call.n, 3), x[call.p].copy(), call.nothing(3)
    for i in range(call.n):
        result[ncc.collective_permute_implicit_current_processing_rank_id(i, call.group)] = current
        ncc.collective_permute_implicit([[current]], [[following]], call.group)
        current, following = following, current
    return [(result, x)]


CASES = (
    all_reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    all_to_all_v,
    all_gather_v,
    all_to_all_v_split,
    all_gather_v_split,
    collective_permute_implicit,
    collective_permute_implicit_reduce,
    ring_all_gather,
)


def run_cases(comm, seed: int) -> list[str]:
    wrong = []
    for g, group in enumerate(groups(comm.size)):
        ranks = next((ranks for ranks in group.rank_lists if comm.rank in ranks), None)
        if ranks is None:
            continue
        for i, case in enumerate(CASES):
            dtype = DTYPES[(g + i) % len(DTYPES)]
            for k, (got, wanted) in enumerate(case(Call(seed + i, group, ranks, comm.rank, dtype))):
                if got.dtype != wanted.dtype or not np.array_equal(got, wanted):
                    wrong.append(
                        f"rank {comm.rank}: {case.__name__} {k} of {dtype.__name__} in {group}: {got} {wanted}"
                    )
    ring = [(i, (i + 1) % comm.size) for i in range(1, comm.size)]  # nobody sends to rank 1
    dst = np.full(2, -1)
    ncc.collective_permute([np.full(2, comm.rank)], [dst], ring)
    if dst.tolist() != [(comm.rank - 1) % comm.size if comm.rank != 1 and comm.size > 1 else 0] * 2:
        wrong.append(f"rank {comm.rank}: collective_permute: {dst}")
    if ncc.rank_id(name="label") != comm.rank:
        wrong.append(f"rank {comm.rank}: rank_id")
    return wrong


@pytest.mark.parametrize("n", [1, 2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_every_name_equals_its_model(ranks, n, seed):
    assert ranks(n, run_cases, seed) == [[]] * n


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.slow
def test_every_name_moves_every_dtype(ranks, seed, dtype):
    def run(comm) -> list[str]:
        group, wrong = ReplicaGroup([[1, 2, 0]]), []
        for case in CASES:
            for got, wanted in case(Call(seed, group, [1, 2, 0], comm.rank, dtype)):
                wrong += [] if np.array_equal(got, wanted) else [case.__name__]
        return wrong

    assert ranks(3, run) == [[]] * 3


def test_float8_sums_are_rounded_once(ranks):
    """In float32: 3 + 1/8 + 1/8 is 3.25, which float8_e4m3 has. Rounded after each addition it would be 3."""

    def run(comm) -> list:
        group = ReplicaGroup([[0, 1, 2]])
        x = np.array([(3, 0.125, 0.125)[comm.rank]] * 3, ml_dtypes.float8_e4m3)
        whole, part = np.zeros_like(x), np.zeros_like(x[:1])
        ncc.all_reduce([x], [whole], group, nl.add)
        ncc.reduce_scatter([x], [part], group, 0, nl.add)
        return [*map(float, whole), *map(float, part)]

    assert ranks(3, run) == [[3.25] * 4] * 3


def test_float8_beside_another_dtype_is_a_mismatch(ranks, told):
    """Though both would be sums of float32."""

    def run(comm) -> list[str]:
        x = np.ones(3, (np.float32, *FLOAT8)[comm.rank])
        return told(lambda: ncc.all_reduce([x], [x], ReplicaGroup([[0, 1, 2, 3]]), nl.add))

    assert {text.partition(":")[0] for text in ranks(4, run)} == {"CollectiveMismatch"}


def test_every_public_name_has_a_case():
    tried = {case.__name__.replace("_split", "_prepare") for case in CASES} | {"collective_permute", "rank_id"}
    tried |= {name.replace("prepare", "trigger") for name in tried if name.endswith("prepare")}
    tried |= {"collective_permute_implicit_current_processing_rank_id"}
    assert set(ncc.__all__) - tried == {"NkiInstruction", "ReplicaGroup", "rg_partition_op"}
