"""What the checks expect equals a plain numpy model; counts and bandwidth factors are those of nccl-tests."""

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from shmbench.cli.options import ALGORITHMS, COLLECTIVES, LIMITED, REDUCING
from shmbench.collectives import Case, Counts
from shmbench.collectives.lengths import sent_counts, uneven
from shmbench.collectives.parts import OUT
from shmbench.collectives.payload import fill
from shmbench.collectives.table import COLLECTIVES as TABLE

ROOT = 1


def case_of(name, ranks, elements, *, rank=0, op="none", dtype=np.int64):
    return Case(np.dtype(dtype), op, min(ROOT, ranks - 1), rank, ranks, TABLE[name].counts(elements, ranks))


def rank_by_rank(case):
    return [replace(case, rank=rank) for rank in range(case.ranks)]


def sent(name, case, seq):
    """The whole input of every rank; None where it has none."""
    inputs = []
    for one in rank_by_rank(case):
        x = np.empty(TABLE[name].lengths(one)[0], case.dtype)
        fill(x, one.sent(one.rank, seq))
        inputs.append(x if x.size else None)
    return inputs


def expected(name, case, seq):
    """The whole output of every rank that the check wants; None where there is none."""
    outputs = []
    for one in rank_by_rank(case):
        segments = TABLE[name].expected(one, seq)
        out = np.full(TABLE[name].lengths(one)[1], -1, case.dtype)
        for s in segments:
            fill(out[s.start : s.stop], s.pattern)
        assert sum(s.stop - s.start for s in segments) == out.size
        outputs.append(out if out.size else None)
    return outputs


def model(name, case, inputs):
    """What numpy makes of the inputs of all ranks."""
    n, root, plain = case.ranks, case.root, name.removesuffix("_v")
    lengths = uneven(case) if name.endswith("_v") else [case.counts.count] * n
    cuts = np.cumsum(lengths)[:-1]
    whole = None if inputs[0] is None or plain.startswith("scatter") else np.concatenate(inputs)
    only_root = [None] * n
    if plain == "broadcast":
        return [inputs[root]] * n
    if plain == "all_gather":
        return [whole] * n
    if plain == "gather":
        only_root[root] = whole
        return only_root
    if plain == "collective_permute":
        return [inputs[rank - 1] for rank in range(n)]
    if plain == "scatter":
        return np.split(inputs[root], cuts)
    if name == "all_to_all":
        return [np.concatenate([x.reshape(n, -1)[rank] for x in inputs]) for rank in range(n)]
    if name == "all_to_all_v":
        rows = [np.split(x, np.cumsum(sent_counts(case, rank))[:-1]) for rank, x in enumerate(inputs)]
        return [np.concatenate([row[rank] for row in rows]) for rank in range(n)]
    reduction = getattr(np, {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}[case.op])
    running = reduction.accumulate(np.stack(inputs))
    total = running[-1]
    if plain == "all_reduce":
        return [total] * n
    if plain == "reduce":
        only_root[root] = total
        return only_root
    if plain == "reduce_scatter":
        return np.split(total, cuts)
    return list(running) if plain == "scan" else [None, *running[:-1]]


@pytest.mark.parametrize("elements", [1, 64, 3 * 4099 * 5])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("name", [name for name in COLLECTIVES if name != "barrier"])
def test_what_is_expected_is_what_numpy_says(name, ranks, elements):
    for op in ("sum", "prod", "min", "max") if name in REDUCING else ("none",):
        case = case_of(name, ranks, elements, op=op)
        outputs = model(name, case, sent(name, case, 4))
        for ours, theirs in zip(expected(name, case, 4), outputs, strict=True):
            assert (ours is None) == (theirs is None)
            assert ours is None or np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", [name for name in COLLECTIVES if TABLE[name].in_place])
def test_in_place_both_are_parts_of_one_array(name):
    """Each as long as it must be, and where the input lies under the output, it is this rank's own part."""
    for one in rank_by_rank(case_of(name, 4, 400, op="sum")):
        sends, gets = TABLE[name].lengths(one)
        memory = np.arange(max(sends, gets))
        x, out = TABLE[name].in_place(one, memory)
        assert sends in (0, x.size) and gets in (0, out.size)
        if not (sends and gets):
            continue
        assert np.shares_memory(x, out)
        long, short = (x, out) if sends > gets else (out, x)
        if sends != gets:
            start = sum((uneven(one) if name.endswith("_v") else [one.counts.count] * 4)[: one.rank])
            assert np.array_equal(short, long[start : start + short.size])


def test_average():
    case = Case(np.dtype(np.float32), "avg", -1, 0, 3, Counts(5000, 5000))
    for ours in expected("all_reduce", case, 1):
        assert np.array_equal(ours, np.stack(sent("all_reduce", case, 1)).mean(axis=0))


def test_uneven_blocks_are_uneven_and_balanced():
    case = case_of("all_to_all_v", 5, 500)
    assert uneven(case) == [100, 150, 150, 50, 50]
    rows = np.array([sent_counts(case, rank) for rank in range(5)])
    assert rows.tolist()[0] == uneven(case)
    assert (rows.sum(axis=0) == 500).all() and (rows.sum(axis=1) == 500).all()


def test_counts_are_those_of_nccl_tests():
    assert TABLE["all_reduce"].counts(1000, 8) == Counts(count=1000, size=1000)
    for name in ("all_to_all", "gather", "scatter", "all_gather", "reduce_scatter"):
        assert TABLE[name].counts(1001, 8) == Counts(count=125, size=1000)
    assert TABLE["all_to_all"].counts(1, 8) == Counts(count=1, size=8)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_bus_bandwidth_factors(name):
    others = {"all_reduce": 1.75, "broadcast": 1.0, "reduce": 1.0, "scan": 1.0, "exscan": 1.0, "barrier": 0.0}
    others |= {"collective_permute": 1.0}
    assert TABLE[name].bus_factor(8) == others.get(name, 0.875)


def test_the_lists_in_the_options_are_those_of_the_files():
    """Options load no numpy, so they keep lists of their own."""
    assert all(TABLE[name].run for name in COLLECTIVES)
    assert [name for name in COLLECTIVES if TABLE[name].parts] == list(LIMITED)
    assert [name for name in COLLECTIVES if TABLE[name].reduces] == [name for name in COLLECTIVES if name in REDUCING]
    for name, algorithms in ALGORITHMS.items():
        assert algorithms == import_module(f"shmcoll.collectives.{name.removeprefix('ex')}").ALGORITHMS


PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
_WHAT = r"((?:`\w+`(?:, (?=`))?)+)( in place)?(, all at the root)?"
_ROW = re.compile(rf"^\| {_WHAT} \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def ranks_in(words, case):
    """The ranks that a row of the page is about."""
    others = [rank for rank in range(case.ranks) if rank != case.root]
    known = {"each": range(case.ranks), "the root": [case.root], "others": others, "0": [0], "1": [1]}
    return known[words] if words in known else range(int(words.partition(" to ")[0]), case.ranks)


def elements(formula, case):
    """What a formula of the page is at a size and a number of ranks."""
    product = re.sub(r"(?<=[\d)]) (?=[(S])", " * ", formula)
    return eval(product, {"S": case.counts.size, "n": case.ranks})


def moved(case, parts):
    """The elements that a rank reads of its own arrays and of those of its peers, and writes."""
    lengths = [(part.stop - part.start, [source.rank == case.rank for source in part.sources]) for part in parts]
    own, peers = (sum(n * mine.count(which) for n, mine in lengths) for which in (True, False))
    return own, peers, sum(n for n, _ in lengths)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_page_says_what_has_to_be_copied(ranks):
    """Of uneven blocks, rank 0 has the mean."""
    seen = set()
    for names, in_place, alone, words, *formulas in _ROW.findall(PAGE.read_text()):
        for name in re.findall(r"\w+", names):
            case = replace(case_of(name, ranks, 48 * ranks, op="sum"), root=0, in_place=bool(in_place))
            for rank in set(ranks_in(words, case)) & ({0} if name.endswith("_v") else set(range(ranks))):
                one = replace(case, rank=rank)
                parts = TABLE[name].parts[-1 if alone else 0](one)
                assert moved(one, parts) == tuple(elements(f, case) for f in formulas), (name, rank)
            seen.add(name)
    assert seen == set(LIMITED)


def test_every_element_of_a_result_is_written_once():
    for name in LIMITED:
        for one in rank_by_rank(case_of(name, 3, 300, op="sum")):
            written = np.zeros(TABLE[name].lengths(one)[1], int)
            for parts in TABLE[name].parts:
                for part in parts(one):
                    if part.array == OUT:
                        written[part.start : part.stop] += 1
            assert (written == len(TABLE[name].parts)).all(), name
