"""Collectives with counts over nodes: in native code, from Python, and of ranks of both kinds together."""

import numpy as np
import pytest

from shmcoll.engine import layout
from shmcoll.engine.layout import COUNT_UNIT, ELEMENT_TYPE, SOURCE_SIZE, TABLE_SIZES, WORD
from shmcoll.nodes.native import short_tables
from tests.nodes import started


@pytest.mark.parametrize("layout_of_ranks", started.LAYOUTS)
def test_results_are_those_of_numpy_on_all_ways(tmp_path, layout_of_ranks, seed):
    done = started.run(tmp_path, str(started.ROOT / "tests/nodes/counts_job.py"), layout_of_ranks, str(seed))
    assert done.returncode == 0, done.stdout + done.stderr


def tables(seed, size):
    """Return tables with rows of all forms, in all pairs of counts and displacements."""
    rng = np.random.default_rng(seed)
    rows = [
        np.full(size, -1),
        np.zeros(size, np.int64),
        np.full(size, 7),
        np.eye(size, dtype=np.int64)[size // 2] * 5,
        np.eye(size, dtype=np.int64)[size // 2] * 5 - 1,
        rng.integers(0, 1 << 40, size),
        rng.integers(-1, 2, size),
    ]
    for counts in rows[1:]:
        for displs in (*rows, np.cumsum(counts) - counts):
            for ends in ([0, -1, 5, 1], [1 << 40, 17, -1, 3], [2, 0, 5 | 99 << 40, 1]):
                given = [rows[rng.integers(len(rows))] for _ in range(3)]
                yield np.concatenate([counts, displs, *given, ends]).astype(np.int64)


@pytest.mark.parametrize("size", [2, 3, 20])
def test_a_table_in_short_is_the_same_table(size, seed):
    room = WORD * (1 + layout.table_words(size))
    for table in tables(seed, size):
        row, found = np.full(room // WORD, -1, np.int64), np.full_like(table, -9)
        length = short_tables.write_table(row.ctypes.data, table.ctypes.data, size)
        assert length <= room
        short_tables.set_row_bytes(row.ctypes.data, length + 4000)
        assert short_tables.row_bytes(row.ctypes.data) == length + 4000
        assert short_tables.table_bytes_in(row.ctypes.data, size) == length
        assert short_tables.read_table(row.ctypes.data, found.ctypes.data, size) == length
        assert found.tolist() == table.tolist()


def test_what_two_ranks_bring_to_a_short_call_fits_into_128_bytes():
    table = np.full(layout.table_words(4), -1, np.int64)
    table[: 2 * 4] = [2, 1, 3, 2, 0, 2, 3, 6]
    table[TABLE_SIZES * 4 :][[SOURCE_SIZE, ELEMENT_TYPE, COUNT_UNIT]] = 8, 4, 1
    row = np.zeros(layout.table_words(4) + 1, np.int64)
    assert short_tables.write_table(row.ctypes.data, table.ctypes.data, 4) == (1 + 4) * WORD
