"""Collectives with counts over nodes: in native code, from Python, and of ranks of both kinds together."""

import numpy as np
import pytest

from shmcoll.engine import layout
from shmcoll.engine.layout import COUNT_UNIT, ELEMENT_TYPE, SOURCE_SIZE, TABLE_SIZES, WORD
from shmcoll.nodes.algorithms import count_rows
from tests.nodes import started


@pytest.mark.any_mpi
@pytest.mark.parametrize("layout_of_ranks", started.LAYOUTS)
def test_results_are_those_of_numpy_on_all_ways(tmp_path, layout_of_ranks, seed):
    done = started.run(tmp_path, str(started.ROOT / "tests/nodes/counts_job.py"), layout_of_ranks, str(seed))
    assert done.returncode == 0, done.stdout + done.stderr


def tables(seed, size):
    """Return tables with words of all lengths."""
    rng = np.random.default_rng(seed)
    for bits in range(64):
        yield rng.integers(-(1 << bits), 1 << bits, layout.table_words(size))
    yield np.full(layout.table_words(size), np.iinfo(np.int64).min)


@pytest.mark.parametrize("size", [2, 3, 20])
def test_a_table_in_a_row_is_the_same_table(size, seed):
    room = 10 * layout.table_words(size) + 2 * WORD
    for table in tables(seed, size):
        row, found = np.full(room // WORD, -1, np.int64), np.full_like(table, -9)
        length = count_rows.write_table(row.ctypes.data, table.ctypes.data, size)
        assert WORD < length <= room
        row[0] = length + 4000
        assert count_rows.read_table(row.ctypes.data, found.ctypes.data, size) == length
        assert found.tolist() == table.tolist()
        row[0] = length - WORD
        assert count_rows.read_table(row.ctypes.data, found.ctypes.data, size) == 0


def test_what_two_ranks_contribute_to_a_short_call_fits_into_128_bytes():
    table = np.full(layout.table_words(4), -1, np.int64)
    table[: 2 * 4] = [2, 1, 3, 2, 0, 2, 3, 6]
    table[TABLE_SIZES * 4 :][[SOURCE_SIZE, ELEMENT_TYPE, COUNT_UNIT]] = 8, 4, 1
    row = np.zeros(layout.table_words(4) + 1, np.int64)
    assert count_rows.write_table(row.ctypes.data, table.ctypes.data, 4) == (1 + 3) * WORD
