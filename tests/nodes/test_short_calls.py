"""Short calls over nodes: from native code, from Python, and from ranks of both kinds together."""

import numpy as np
import pytest

from shmcoll.engine import context as c
from shmcoll.engine.layout import HEADER_BYTES, WORD
from shmcoll.nodes.opening import fingerprint, opening
from shmcoll.nodes.opening.layout import CALLED, STATE, STATE_WORDS
from tests.nodes import started


@pytest.mark.any_mpi
@pytest.mark.parametrize("layout", started.LAYOUTS)
def test_results_are_those_of_numpy_on_all_ways(tmp_path, layout, seed):
    done = started.run(tmp_path, str(started.ROOT / "tests/nodes/short_calls_job.py"), layout, str(seed))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.any_mpi
@pytest.mark.slow
def test_the_steps_in_the_node_can_be_disturbed(tmp_path):
    """With faults the routines of the node run as Python, also those that native code calls."""
    job = str(started.ROOT / "tests/nodes/failures_job.py")
    done = started.run(tmp_path, job, "2x2", "bad_argument", str(tmp_path), SHMCOLL_FAULTS="*:jitter@1")
    assert done.returncode == 0, done.stderr
    assert [one["kind"] for one in started.results(tmp_path, 4)] == [""] * 4


@pytest.mark.parametrize(
    ("one", "other", "found"), [(0, 0, 0), (0, 5, 5), (5, 0, 5), (5, 5, 5), (5, 6, -1), (-1, 5, -1)]
)
def test_fingerprints_that_only_some_ranks_have(one, other, found):
    assert opening.both(one, other) == found


def fingerprint_of(words, dims):
    ctx = np.zeros(c.CONTEXT_WORDS, np.int64)
    state, called, extents = np.zeros(STATE_WORDS, np.int64), np.zeros(HEADER_BYTES // WORD, np.int64), np.array(dims)
    ctx[STATE // WORD], state[CALLED // WORD] = state.ctypes.data, called.ctypes.data
    for word, value in words.items():
        ctx[word // WORD] = value
    ctx[(c.X + c.DIMENSIONS) // WORD], ctx[(c.X + c.DIMS) // WORD] = len(dims), extents.ctypes.data
    x = ctx.ctypes.data + c.X
    second = words.get(c.ARGUMENT_2, 0)
    return fingerprint.positive(fingerprint.with_array(fingerprint.describe(ctx.ctypes.data, x, second), x, second))


def test_fingerprints_differ_if_anything_differs():
    words = dict.fromkeys((c.OPERATION, c.REDUCTION, c.ALGORITHM, c.ARGUMENT, c.ARGUMENT_2, c.X + c.DTYPE), 1)
    found = [fingerprint_of(words, dims) for dims in ([3, 4], [4, 3], [12], [3, 4, 1], [])]
    found += [fingerprint_of(words | {word: 2}, [3, 4]) for word in words]
    assert len(set(found)) == len(found)
    assert min(found) > 0
    assert fingerprint_of(words, [3, 4]) == found[0]
