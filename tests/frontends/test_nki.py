"""all_to_all_v of nki.collectives: random counts against a plain model, and what all ranks refuse together."""

import ml_dtypes
import numpy as np
import pytest

from shmcoll.nki import collectives as nccl
from shmcoll.nki.collectives import ReplicaGroup, all_to_all_v

BIG = 2**32 - 1
FILL = 111  # of destinations and of row 2: what no element and no count is
DTYPES = (np.float32, np.int8, ml_dtypes.bfloat16, np.complex128, np.uint16, bool)


class Case:
    """One exchange as all ranks see it. Tables by (sender, receiver) or (receiver, sender), in positions."""

    def __init__(self, rng: np.random.Generator, n: int, has_rdispls: bool):
        self.order = rng.permutation(n).tolist() if rng.random() < 0.5 else list(range(n))
        self.has_rdispls = has_rdispls
        slot = int(rng.choice([0, 1, 5, 300, 60_000 // n]))
        self.counts = rng.integers(0, slot + 1, (n, n)) * (rng.random((n, n)) < 0.8)
        source_sizes = self.counts.max(axis=1) + rng.integers(0, 50, n)
        self.displs = rng.integers(0, source_sizes[:, None] - self.counts + 1)  # send regions overlap
        self.places = np.zeros((n, n), int)
        sizes = np.zeros(n, int)
        for receiver in range(n):
            if has_rdispls:
                for sender in rng.permutation(n):
                    self.places[receiver, sender] = sizes[receiver] + rng.integers(0, 3)
                    sizes[receiver] = self.places[receiver, sender] + self.counts[sender, receiver]
                sizes[receiver] += rng.integers(0, 4)
            else:
                sizes[receiver] = slot * n + rng.integers(0, n)  # slots of floor(size / n)
                self.places[receiver] = slot * np.arange(n)
        dtype = DTYPES[rng.integers(len(DTYPES))]
        self.sources = [rng.integers(0, 100, size).astype(dtype) for size in source_sizes]
        self.targets = [np.full(size, FILL).astype(dtype) for size in sizes]
        self.rows = 4 if has_rdispls or rng.random() < 0.5 else 3
        self.first_axis = rng.random() < 0.5
        self.signed = rng.random() < 0.5

    def metadata(self, position: int) -> np.ndarray:
        rows = np.full((self.rows, len(self.order)), FILL, np.uint32)
        rows[0], rows[1] = self.counts[position], self.displs[position]
        if self.has_rdispls:
            rows[3] = self.places[position]
        if self.signed:
            rows = rows.view(np.int32)
        return rows[None] if self.first_axis else rows

    def wanted(self, position: int) -> np.ndarray:
        """The destination afterwards: one slice assignment for each sender."""
        result = self.targets[position].copy()
        for sender, source in enumerate(self.sources):
            count, begin = self.counts[sender, position], self.displs[sender, position]
            place = self.places[position, sender]
            result[place : place + count] = source[begin : begin + count]
        return result


def run_cases(comm, seed: int, rounds: int) -> list[str]:
    rng = np.random.default_rng(seed)
    wrong = []
    for i in range(rounds):
        case = Case(rng, comm.size, has_rdispls=i % 2 == 1)
        known = i % 4 >= 2
        me = case.order.index(comm.rank)
        metadata, src, dst = case.metadata(me), case.sources[me].copy(), case.targets[me].copy()
        wanted_metadata = case.metadata(me)
        if not known:
            wanted_metadata.reshape(case.rows, -1)[2] = case.counts[:, me]
        result = all_to_all_v([src], [dst], ReplicaGroup([case.order]), metadata, known, case.has_rdispls, i % 4)
        for name, same in (
            ("returned", result is None),
            ("dst", np.array_equal(dst, case.wanted(me))),
            ("metadata", np.array_equal(metadata, wanted_metadata)),
            ("src", np.array_equal(src, case.sources[me])),
        ):
            if not same:
                wrong.append(f"rank {comm.rank}, round {i}, order {case.order}: {name} is wrong")
    return wrong


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, pytest.param(16, marks=pytest.mark.slow)])
def test_random_counts_equal_the_model(ranks, n, seed):
    assert ranks(n, run_cases, seed, 48 // n + 8) == [[]] * n


def test_shapes_and_layouts_are_flat_buffers(ranks):
    """Two dimensions, a destination with gaps, and the same array as source and destination."""

    def run(comm) -> list:
        n, r = comm.size, comm.rank
        group = ReplicaGroup([[0, 1]])
        metadata = np.array([[2, 2], [0, 2], [9, 9]], np.uint32)
        room = np.zeros((2, 4), np.int32)
        all_to_all_v([np.arange(4, dtype=np.int32).reshape(2, 2) + 10 * r], (room[:, ::2],), group, metadata)
        both = np.arange(4) + 10 * r
        all_to_all_v([both], [both], group, metadata)
        return [room.tolist(), both.tolist(), n]

    assert ranks(2, run) == [
        [[[0, 0, 1, 0], [10, 0, 11, 0]], [0, 1, 10, 11], 2],
        [[[2, 0, 3, 0], [12, 0, 13, 0]], [2, 3, 12, 13], 2],
    ]


def test_a_block_may_go_on_into_an_empty_slot(ranks, told):
    """Blocks begin at p * floor(size / n), "regardless of the actual recv_count". Here 7 elements are 2 slots of 3."""

    def run(comm) -> list:
        found, group = [], ReplicaGroup([[0, 1]])
        for sent in ([0, 4], [4, 0], [4, 1], [0, 5]):  # by ranks 0 and 1, to both
            for function in (all_to_all_v, nccl.all_gather_v):
                dst, src = np.full(7, -1), np.arange(5) + 10 * comm.rank
                metadata = np.array([[sent[comm.rank]] * 2, [0, 0], [9, 9]], np.uint32)
                refusal = told(lambda: function([src], [dst], group, metadata))  # noqa: B023
                found.append(dst.tolist() if refusal == "nothing wrong: None" else refusal)
        return found

    results = ranks(2, run)
    assert results[0] == results[1]
    assert results[0][:4] == [[-1, -1, -1, 10, 11, 12, 13]] * 2 + [[0, 1, 2, 3, -1, -1, -1]] * 2
    assert results[0][4:] == [
        "ValueError: all_to_all_v #5: what rank 0 receives from ranks 0 and 1 overlaps at displacement 3",
        "ValueError: all_gather_v #6: what rank 0 receives from ranks 0 and 1 overlaps at displacement 3",
        "ValueError: all_to_all_v #7: 5 elements from rank 1 at displacement 3 of rank 0 do not fit its result of 7",
        "ValueError: all_gather_v #8: 5 elements from rank 1 at displacement 3 of rank 0 do not fit its result of 7",
    ]


def test_an_excluded_rank_sends_nothing(ranks):
    def run(comm) -> list:
        dst = np.full(3, -1)
        counts = [0, 0, 0] if comm.rank == 1 else [1, 0, 1]
        metadata = np.array([counts, [0, 0, 0], [9, 9, 9]], np.uint32)
        all_to_all_v([np.array([comm.rank])], [dst], ReplicaGroup([[0, 1, 2]]), metadata)
        return [dst.tolist(), metadata[2].tolist()]

    others = [[0, -1, 2], [1, 0, 1]]
    assert ranks(3, run) == [others, [[-1, -1, -1], [0, 0, 0]], others]


# --- verdicts ---------------------------------------------------------------------------------------------------------

FINE = np.array([[1, 1, 1], [0, 1, 2], [9, 9, 9], [0, 2, 4]], np.uint32)
# on rank 1: whether row 3 counts, which entry is changed to what, and the reason that all ranks hear
WRONG = (
    (False, (0, 0), 3, "what rank 0 receives from ranks 1 and 2 overlaps at displacement 4"),
    (True, (0, 2), 7, "rank 1 sends 7 elements from displacement 2 to rank 2, but its source has 3"),
    (False, (1, 0), 3, "rank 1 sends 1 elements from displacement 3 to rank 0, but its source has 3"),
    (False, (1, 0), BIG, f"rank 1 sends 1 elements from displacement {BIG} to rank 0, but its source has 3"),
    (True, (3, 2), 6, "1 elements from rank 2 at displacement 6 of rank 1 do not fit its result of 6"),
    (True, (3, 2), BIG, f"1 elements from rank 2 at displacement {BIG} of rank 1 do not fit its result of 6"),
    (True, (3, 2), 0, "what rank 1 receives from ranks 0 and 2 overlaps at displacement 0"),
)


def test_what_does_not_fit_on_one_rank_is_refused_on_all(ranks, told):
    """Nothing is written, row 2 neither, and the next call works."""

    def run(comm) -> list:
        group = ReplicaGroup([[0, 1, 2]])
        found = []
        for has_rdispls, where, value, _ in WRONG:
            metadata = FINE.copy()
            if comm.rank == 1:
                metadata[where] = value
            before, dst = metadata.copy(), np.full(6, -1)
            call = ([np.arange(3) + 10 * comm.rank], [dst], group)
            found.append(told(lambda call=call, m=metadata, has=has_rdispls: all_to_all_v(*call, m, has_rdispls=has)))
            found.append((metadata == before).all() and (dst == -1).all())
            all_to_all_v(*call, FINE.copy(), has_rdispls=has_rdispls)
            found.append(dst.tolist())
        return found

    results = ranks(3, run)
    for rank, found in enumerate(results):
        assert found[1::3] == [True] * len(WRONG)
        assert found[2::3] == [[rank, -1, 10 + rank, -1, 20 + rank, -1]] * len(WRONG)
        for text, (_, _, _, reason) in zip(found[::3], WRONG, strict=True):
            assert text.startswith("ValueError: all_to_all_v #")
            assert text.endswith(f": {reason}")
        assert found[::3] == results[0][::3]
