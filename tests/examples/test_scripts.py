"""The examples of the native interface do what their texts say: checked against numpy in one process."""

import re
from importlib.util import find_spec

import numpy as np
import pytest

pytestmark = pytest.mark.slow

needs_digits = pytest.mark.skipif(
    find_spec("sklearn") is None, reason="scikit-learn is not installed: pip install 'shmcoll[examples]'"
)


@pytest.mark.parametrize("n", [1, 3])
def test_jacobi_is_bit_for_bit_that_of_one_process(load, ranks, n):
    plate = np.zeros((26, 26))
    plate[0] = 1
    changes = []
    while not changes or changes[-1] > 1e-3:
        old = plate.copy()
        plate[1:-1, 1:-1] = (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]) / 4
        changes.append(np.abs(plate - old).max())

    results = ranks(n, load("jacobi").solve, 24, 1e-3)
    assert all(told == changes for _, told in results)
    np.testing.assert_array_equal(np.concatenate([rows for rows, _ in results]), plate[1:-1, 1:-1], strict=True)


def test_jacobi_refuses_uneven_strips(load, ranks):
    outcomes = ranks.outcomes(2, load("jacobi").solve, 25, 1e-3)
    assert all("25 rows cannot be shared out evenly among 2 ranks" in outcome.traceback for outcome in outcomes)


def test_jacobi_prints_the_plate(printed):
    first, *rows = printed("jacobi", 2, 24, 1e-3).splitlines()
    assert re.fullmatch(r"2 ranks, 24 x 24 points: settled after \d+ iterations", first)
    assert len(rows) == 12
    assert all(row == row[::-1] for row in rows)
    assert "@" in rows[0] and "@" not in rows[-1]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_matmul_is_exact(load, ranks, n):
    matmul = load("matmul")
    a, b = matmul.matrices(8, 12, 5)

    def multiply(comm):
        return matmul.multiply(comm, np.split(a, n)[comm.rank], np.split(b, n)[comm.rank])

    np.testing.assert_array_equal(np.concatenate(ranks(n, multiply)), a @ b, strict=True)


def test_matmul_prints_that_nothing_is_wrong(printed):
    assert printed("matmul", 2, 8) == "2 ranks: (32, 16) @ (16, 24) has 0 wrong elements of 768\n"


@pytest.mark.parametrize("n", [1, 3])
def test_experts_equal_a_loop_over_tokens(load, ranks, n):
    experts = load("experts")
    tokens = [np.random.default_rng(rank).normal(size=(5 + rank, experts.WIDTH)) for rank in range(n)]
    results = ranks(n, lambda comm: experts.mixture(comm, tokens[comm.rank]))
    for mine, result in zip(tokens, results, strict=True):
        best, weights = experts.route(mine, n * experts.EXPERTS)
        for token, chosen, shares, got in zip(mine, best, weights, result, strict=True):
            wanted = sum(w * experts.expert(number, token) for number, w in zip(chosen, shares, strict=True))
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


def test_experts_where_nobody_has_a_token(load, ranks):
    experts = load("experts")
    results = ranks(2, lambda comm: experts.mixture(comm, np.empty((0, experts.WIDTH))))
    assert [result.shape for result in results] == [(0, experts.WIDTH)] * 2


def test_experts_print_the_difference_to_the_dense_computation(printed):
    told = re.fullmatch(r"2 ranks, 4 experts, 50 tokens a rank: off by (\S+) at most\n", printed("experts", 2, 50))
    assert told and float(told[1]) < 1e-12


@pytest.mark.parametrize("n", [1, 3])
def test_histogram_is_that_of_all_numbers_together(load, ranks, n):
    example = load("histogram")
    shards = np.random.default_rng(5).gamma(3.0, size=(n, 4000))
    shards += 2 * np.arange(n)[:, None]  # the ranks' numbers differ much
    wanted = np.array([0.1, 0.25, 0.5, 0.75, 0.99])

    def both(comm):
        mine = shards[comm.rank]
        return *example.histogram(comm, mine, 16), example.quantiles(comm, mine, wanted)

    counts, edges = np.histogram(shards, 16)
    results = ranks(n, both)
    for got_counts, got_edges, _ in results:
        np.testing.assert_array_equal(got_counts, counts)
        np.testing.assert_array_equal(got_edges, edges)
    assert [found is not None for _, _, found in results] == [True] + [False] * (n - 1)
    below = (shards.ravel() <= results[0][2][:, None]).mean(axis=1)
    assert np.abs(below - wanted).max() <= 1 / example.SAMPLES


def test_histogram_prints_bars(printed):
    first, *bars = printed("histogram", 2, 1000).splitlines()
    assert re.fullmatch(r"2 ranks, 2000 numbers; quartiles \d\.\d\d \d\.\d\d \d\.\d\d", first)
    assert sum(int(bar.split()[1]) for bar in bars) == 2000
    assert max(bar.count("#") for bar in bars) == 50


@needs_digits
def test_digits_learn_as_in_one_process(load, ranks):
    def learn(comm):
        digits = load("digits")  # here, so that the process of the tests stays without scikit-learn
        training, unseen = digits.images("train"), digits.images("test")
        weights = digits.train(comm, *digits.share(comm, *training), 40)
        return training, unseen, weights, digits.accuracy(comm, *digits.share(comm, *unseen), weights)

    results = ranks(3, learn)
    (x, labels), (unseen, truth), _, _ = results[0]
    assert (len(x), len(unseen)) == (1500, 297)
    weights = np.zeros((65, 10))
    for _ in range(40):
        likelihood = np.exp(x @ weights)
        likelihood /= likelihood.sum(axis=1, keepdims=True)
        weights -= 2 / 1500 * x.T @ (likelihood - labels)
    right = ((unseen @ weights).argmax(axis=1) == truth.argmax(axis=1)).mean()
    assert right > 0.9
    for _, _, got, accuracy in results:
        np.testing.assert_allclose(got, weights, rtol=0, atol=1e-12)
        assert accuracy == right
        np.testing.assert_array_equal(got, results[0][2])  # every rank has the same, bit for bit


@needs_digits
def test_digits_print_their_accuracy(printed):
    told = re.fullmatch(r"2 ranks, 50 steps: (\S+)% of 297 unseen digits recognised\n", printed("digits", 2, 50))
    assert told and float(told[1]) > 90
