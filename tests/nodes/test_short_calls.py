"""Short calls over nodes: from native code, from Python, and from ranks of both kinds together."""

import numpy as np
import pytest

from shmcoll.engine.layout import WORD
from shmcoll.nodes.moves import array_facts
from shmcoll.nodes.native import marks, opening
from shmcoll.nodes.native.layout import KEYS, STATE_WORDS
from tests.nodes import started


@pytest.mark.parametrize("layout", started.LAYOUTS)
def test_results_are_those_of_numpy_on_all_ways(tmp_path, layout, seed):
    done = started.run(tmp_path, str(started.ROOT / "tests/nodes/short_calls_job.py"), layout, str(seed))
    assert done.returncode == 0, done.stdout + done.stderr


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
def test_marks_that_only_some_ranks_have(one, other, found):
    assert opening.both(one, other) == found


def test_a_key_is_found_as_a_whole_only():
    table, key, state = (
        np.zeros(marks.TABLE_WORDS, np.int64),
        np.zeros(marks.KEY_WORDS, np.int64),
        np.zeros(STATE_WORDS, np.int64),
    )
    state[KEYS // WORD] = table.ctypes.data
    shape = np.array([3, 4], np.int64)
    call = key.ctypes.data, 1, 2, 3, 0, 2, shape.ctypes.data
    marks.write_key(*call)
    assert marks.find(state.ctypes.data, key.ctypes.data) == 0
    marks.enter(state.ctypes.data, key.ctypes.data, 77, 88)
    found = marks.find(state.ctypes.data, key.ctypes.data)
    assert table[(found - table.ctypes.data) // WORD :][:2].tolist() == [77, 88]
    for word in range(marks.KEY_WORDS):
        key[word] ^= 1 << 40
        assert marks.find(state.ctypes.data, key.ctypes.data) == 0
        key[word] ^= 1 << 40


def test_facts_of_equal_dtypes_do_not_depend_on_the_calls_before():
    """Structured dtypes that are aligned and not may be equal, and have different words."""
    plain = np.dtype([("a", np.int32), ("b", np.int32)])
    aligned = np.dtype([("a", np.int32), ("b", np.int32)], align=True)
    assert plain == aligned
    assert str(plain) != str(aligned)
    arrays = [np.zeros(2, dtype) for dtype in (plain, aligned)]
    forwards = [array_facts(array) for array in arrays]
    assert [array_facts(array) for array in reversed(arrays)] == forwards[::-1]
