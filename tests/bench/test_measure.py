"""The check finds what a library gets wrong. The library here is one rank in plain numpy, with a fault to choose."""

from dataclasses import replace

import numpy as np
import pytest
from shmbench.cli.options import COLLECTIVES
from shmbench.collectives import Case, Counts
from shmbench.collectives.table import COLLECTIVES as TABLE
from shmbench.timing.measure import Bench, Plan, cases


@pytest.fixture(autouse=True)
def no_collection(monkeypatch):
    """The collector would go through what all tests before these have left, hundreds of times."""
    monkeypatch.setattr("shmbench.timing.measure.gc.collect", lambda: 0)


PLAN = Plan(iterations=20, warmup=2, rounds=2, check=True)


class Comm:
    """A job of one rank: every result is the input. `fault` spoils outputs that are as long as the benchmark's."""

    def __init__(self, fault=None):
        self.fault = fault
        self.calls = 0

    def all_reduce(self, x, op="sum", *, out):
        self.calls += 1
        if self.fault == "forgets" and self.calls % 4 == 0:
            return out
        out[...] = self.before if self.fault == "stale" and self.calls > 1 else x
        self.before = x.copy()
        if self.fault == "last element":
            out[-1] += 1
        return out

    reduce_scatter = scan = all_reduce

    def all_gather(self, x, *, out):
        return self.all_reduce(x, out=out)

    all_to_all = all_gather

    def gather(self, x, root, *, out):
        return self.all_reduce(x, out=out)

    scatter = gather

    def reduce(self, x, root, op, *, out):
        return self.all_reduce(x, out=out)

    def collective_permute(self, x, pairs, *, out):
        return self.all_reduce(x, out=out)

    def broadcast(self, x, root):
        return self.all_reduce(x, out=x)

    def exscan(self, x, op, *, out):
        assert out is None

    def all_to_all_v(self, x, counts, *, out):
        assert counts.tolist() == [x.size]
        return self.all_reduce(x, out=out), counts

    def reduce_scatter_v(self, x, counts, op, *, out):
        return self.all_to_all_v(x, counts, out=out)[0]

    def scatter_v(self, x, root, *, send_counts, out):
        return self.all_to_all_v(x, send_counts, out=out)[0]

    def all_gather_v(self, x, *, out):
        return self.all_reduce(x, out=out), [x.size]

    def gather_v(self, x, root, *, out):
        return self.all_gather_v(x, out=out)

    def barrier(self):
        self.calls += 1


class Alone:
    name, version, rank, size = "alone", "0", 0, 1

    def __init__(self, fault=None):
        self.comm = Comm(fault)

    def barrier(self):
        pass

    def exchange(self, values):
        return values[np.newaxis]

    def collective(self, name):
        return TABLE[name]


def measure(name, fault=None, plan=PLAN, elements=100):
    library = Alone(fault)
    collective = library.collective(name)
    case = Case(np.dtype(np.float32), "sum", 0, 0, 1, collective.counts(elements, 1))
    bench = Bench(library, collective)
    return [bench.measure(placed, plan) for placed in cases(collective, case)]


def placements(name):
    return [case.in_place for case in cases(TABLE[name], Case(np.dtype(np.float32), "sum", 0, 0, 1, Counts(1, 1)))]


@pytest.mark.parametrize("name", COLLECTIVES)
def test_right_results_count_as_right(name):
    for timing in measure(name):
        assert timing.wrong == 0
        assert timing.seconds > 0 and len(timing.rounds) == 2 and timing.iterations == 20


def test_placements():
    both = {"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v", "scan", "exscan"}
    both |= {"all_gather", "scatter", "all_to_all"}
    for name in COLLECTIVES:
        assert placements(name) == ([True] if name == "broadcast" else [False, True] if name in both else [False])
        assert len(measure(name)) == len(placements(name))


WITH_RESULTS = [name for name in COLLECTIVES if name not in ("barrier", "exscan")]  # exscan: none on rank 0


@pytest.mark.parametrize("name", [name for name in WITH_RESULTS if TABLE[name].out_of_place])
@pytest.mark.parametrize("fault", ["stale", "forgets", "last element"])
def test_faults_are_found(name, fault):
    assert measure(name, fault)[0].wrong > 0


@pytest.mark.parametrize("name", [name for name in WITH_RESULTS if TABLE[name].in_place])
@pytest.mark.parametrize("fault", ["stale", "last element"])
def test_faults_are_found_in_place(name, fault):
    assert measure(name, fault)[-1].wrong > 0


def test_unchecked_results_count_as_unchecked():
    assert measure("all_reduce", "stale", replace(PLAN, check=False))[0].wrong is None


def test_a_wrong_element_counts_once_a_buffer_and_round():
    assert measure("gather", "last element")[0].wrong == 16 * PLAN.rounds


@pytest.mark.parametrize(("seconds", "iterations"), [(1e-4, 1000), (1e-9, 20_000), (1.0, 3)])
def test_iterations_fill_a_round_when_not_given(monkeypatch, seconds, iterations):
    monkeypatch.setattr(Bench, "slowest", lambda *_: seconds)
    assert measure("gather", plan=replace(PLAN, iterations=None))[0].iterations == iterations


class TwoRanks(Alone):
    """The other rank came to the barrier a second after this one left it."""

    def exchange(self, values):
        return np.stack([values, values + 1e9])


def test_leaving_a_barrier_early_is_found():
    library = TwoRanks()
    case = Case(np.dtype(np.float32), "none", -1, 0, 2, TABLE["barrier"].counts(0, 2))
    assert Bench(library, TABLE["barrier"]).measure(case, PLAN).wrong > 0
