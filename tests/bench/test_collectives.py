"""What the checks expect equals a plain numpy model; counts and bandwidth factors are those of nccl-tests."""

import numpy as np
import pytest
from shmbench.collectives import Case, Counts, all_to_all_v, find
from shmbench.options import COLLECTIVES, LIMITS
from shmbench.payload import fill


def case_of(name, rank, ranks, elements, op="none", root=-1):
    return Case(np.dtype(np.int64), op, root, rank, ranks, find(name).counts(elements, ranks))


def sent(case, seq):
    """The whole input of every rank."""
    inputs = []
    for rank in range(case.ranks):
        x = np.empty(case.counts.send, case.dtype)
        fill(x, case.sent(rank, seq))
        inputs.append(x)
    return inputs


def expected(name, case, seq):
    """The whole output that the check wants."""
    out = np.full(case.counts.receive, -1, case.dtype)
    for s in find(name).expected(case, seq):
        fill(out[s.start : s.stop], s.pattern)
    return out


@pytest.mark.parametrize("elements", [1, 64, 3 * 4099 * 5])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_block_exchanges(ranks, elements):
    for rank in range(ranks):
        case = case_of("all_to_all", rank, ranks, elements)
        result = np.concatenate([x.reshape(ranks, -1)[rank] for x in sent(case, 4)])
        assert np.array_equal(expected("all_to_all", case, 4), result)

        case = case_of("all_to_all_v", rank, ranks, elements)
        parts = []
        for source, x in enumerate(sent(case, 4)):
            ends = np.cumsum(all_to_all_v.sent_counts(case, source))
            parts.append(np.split(x, ends[:-1])[rank])
        assert [part.size for part in parts] == all_to_all_v.received_counts(case)
        assert np.array_equal(expected("all_to_all_v", case, 4), np.concatenate(parts))


@pytest.mark.parametrize("ranks", [1, 3])
def test_gather_goes_to_the_root_alone(ranks):
    root = ranks - 1
    for rank in range(ranks):
        case = case_of("gather", rank, ranks, 5000, root=root)
        if rank == root:
            assert np.array_equal(expected("gather", case, 2), np.concatenate(sent(case, 2)))
        else:
            assert find("gather").expected(case, 2) == []


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
def test_all_reduce(op):
    case = case_of("all_reduce", 1, 4, 5000, op=op)
    model = getattr(np.stack(sent(case, 7)), op)(axis=0)
    assert np.array_equal(expected("all_reduce", case, 7), model)


def test_average():
    case = Case(np.dtype(np.float32), "avg", -1, 0, 3, Counts(5000, 5000, 5000))
    assert np.array_equal(expected("all_reduce", case, 1), np.stack(sent(case, 1)).mean(axis=0))


def test_uneven_blocks_are_uneven_and_balanced():
    case = case_of("all_to_all_v", 0, 5, 500)
    rows = np.array([all_to_all_v.sent_counts(case, rank) for rank in range(5)])
    assert rows.tolist()[0] == [100, 150, 150, 50, 50]
    assert (rows.sum(axis=0) == 500).all() and (rows.sum(axis=1) == 500).all()


def test_counts_are_those_of_nccl_tests():
    assert find("all_reduce").counts(1000, 8) == Counts(1000, 1000, 1000)
    assert find("all_to_all").counts(1001, 8) == Counts(125, 1000, 1000)
    assert find("gather").counts(1001, 8) == Counts(125, 125, 1000)
    assert find("all_to_all").counts(1, 8) == Counts(1, 8, 8)


@pytest.mark.parametrize(
    ("name", "factor"),
    [("all_reduce", 1.75), ("all_to_all", 0.875), ("all_to_all_v", 0.875), ("gather", 0.875), ("barrier", 0.0)],
)
def test_bus_bandwidth_factors(name, factor):
    assert find(name).bus_factor(8) == factor


def test_every_name_has_its_file():
    assert all(find(name).run for name in COLLECTIVES + LIMITS)
