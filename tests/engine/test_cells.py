"""Where the cells of a call lie, and how they are written: see `engine/protocol/cells.py`."""

import ctypes
import itertools
import random
from typing import Any

import numpy as np
import pytest

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.layout import CELL_BYTES, PAGE, WORD
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.protocol.cells import MOVED_BYTES, cell, cell_in_share, cell_of_round, full_cell
from shmcoll.engine.protocol.pace import UNIT
from shmcoll.engine.system import caches
from shmcoll.engine.system.cores import usable_cores

MIB = 1 << 20
BASE = 1 << 40


def context(window: int, cell_bytes: int = CELL_BYTES) -> Any:
    words = (ctypes.c_int64 * c.CONTEXT_WORDS)()
    words[c.CELLS // WORD], words[c.CELL_BYTES // WORD], words[c.WINDOW_BYTES // WORD] = BASE, cell_bytes, window
    return words


def places(window: int, rounds: int, length: int, operations: int = 1000) -> list[int]:
    """The places of the cells of rank 1, in the order of its turns."""
    words = context(window)
    ctx = ctypes.addressof(words)
    return [cell_of_round(ctx, 1, s, k, rounds, length) for s in range(operations) for k in range(rounds)]


def test_a_cell_lies_in_the_window_of_its_turn(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(2000):
        most = draw.choice([384, 4096, CELL_BYTES])
        window = most * draw.randrange(1, 9) + draw.choice([0, layout.LINE])
        words = context(window, most)
        rank, sequence, k = draw.randrange(8), draw.getrandbits(38), draw.randrange(300)
        length = min(draw.choice([0, 1, MOVED_BYTES, most, draw.randrange(1, 2 * most)]), most)
        rounds = draw.choice([1, 2, 3, 256])
        start = BASE + (2 * rank + (sequence + k & 1)) * window
        place = cell_of_round(ctypes.addressof(words), rank, sequence, k, rounds, length)
        assert start <= place and place + length <= start + window


def test_each_reader_has_a_share_of_the_window(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(2000):
        most, shares = draw.choice([4096, CELL_BYTES]), draw.randrange(1, 8)
        window, part = most * draw.randrange(1, 9), most // shares // layout.LINE * layout.LINE
        words = context(window, most)
        rank, sequence, k = draw.randrange(8), draw.getrandbits(38), draw.randrange(300)
        found = []
        for index in range(shares):
            length, rounds = draw.choice([0, 1, part, draw.randrange(part)]), draw.choice([1, 2, 256])
            args = rank, sequence, k, rounds, length, index, shares
            place = cell_in_share(ctypes.addressof(words), *args)
            found.append((place, place + length))
        start = BASE + (2 * rank + (sequence + k & 1)) * window
        assert start <= found[0][0] and found[-1][1] <= start + window
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(found))


@pytest.mark.parametrize("length", [MOVED_BYTES, 12_345, 64 << 10, CELL_BYTES])
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 7])
def test_cells_of_successive_turns_lie_one_behind_the_other(rounds: int, length: int) -> None:
    """So a line is written again only after the rest of the window."""
    found = places(MIB, rounds, length)
    number = MIB // -(-length // PAGE * PAGE)
    for window in range(2):
        mine = [p for p in found if BASE + (2 + window) * MIB <= p < BASE + (3 + window) * MIB]
        assert len(mine) > 2 * number
        for first in range(0, len(mine) - number, 17):
            assert len(set(mine[first : first + number])) == number


def test_short_cells_and_windows_of_one_cell_stay() -> None:
    assert set(places(MIB, 1, MOVED_BYTES - 1)) == {BASE + 2 * MIB, BASE + 3 * MIB}
    assert set(places(CELL_BYTES, 3, 64 << 10)) == {BASE + 2 * CELL_BYTES, BASE + 3 * CELL_BYTES}


def test_lengths_above_a_cell_are_cut_into_rounds() -> None:
    words = context(MIB)
    ctx = ctypes.addressof(words)
    for k in range(5):
        assert cell(ctx, 1, 7, k, 3 * CELL_BYTES - 5) == cell_of_round(ctx, 1, 7, k, 3, CELL_BYTES)
        assert full_cell(ctx, 1, 7, k) == cell_of_round(ctx, 1, 7, k, 1, CELL_BYTES)
    assert cell(ctx, 1, 7, 0, 100) == cell_of_round(ctx, 1, 7, 0, 1, 100)


@pytest.mark.parametrize(
    ("ranks", "cores", "cache", "window"),
    [
        (2, 2, MIB, MIB),
        (2, 8, 2 * MIB, 2 * MIB),
        (3, 8, MIB, MIB // 2),
        (4, 8, MIB, CELL_BYTES),
        (8, 8, MIB, CELL_BYTES),
        (2, 2, 100_000, CELL_BYTES),
        (3, 2, MIB, CELL_BYTES),
        (1, 2, MIB, CELL_BYTES),
    ],
)
def test_windows_follow_the_cache_of_a_core(
    monkeypatch: pytest.MonkeyPatch, ranks: int, cores: int, cache: int, window: int
) -> None:
    monkeypatch.setattr(arenas, "own_cache", lambda: cache)
    assert arenas.usual_window(ranks, cores) == window


def test_the_cache_of_a_core_is_read_from_sys(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(caches, "CPUS", tmp_path)
    monkeypatch.setattr(caches, "allowed_cores", lambda: {3, 5})
    assert caches.own_cache() == caches.USUAL_OWN_CACHE
    for index, (level, size) in enumerate([(1, "32K"), (2, "1280K"), (3, "32768K")]):
        folder = tmp_path / "cpu3" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
    assert caches.own_cache() == 1280 << 10
    (tmp_path / "cpu3" / "cache" / "index1" / "size").write_text("16M\n")
    assert caches.own_cache() == caches.LARGEST_OWN_CACHE
    (tmp_path / "cpu3" / "cache" / "index1" / "size").write_text("much\n")
    assert caches.own_cache() == caches.USUAL_OWN_CACHE


def test_a_job_has_windows_for_its_ranks(ranks: Any) -> None:
    told = ranks(2, lambda comm: int(comm._dispatcher.words[c.WINDOW_BYTES // WORD]))
    assert told == [arenas.usual_window(2, usable_cores())] * 2


@pytest.mark.parametrize("number", [2, 4])
@pytest.mark.parametrize("passing", [False, True])
def test_results_are_the_same_however_cells_are_written(
    ranks: Any, monkeypatch: pytest.MonkeyPatch, passing: bool, number: int
) -> None:
    """Every collective that writes cells, at lengths around all limits, each in many turns. Windows are longer than a
    cell, though ranks may outnumber cores."""
    monkeypatch.setattr(arenas, "usual_window", lambda *_: 3 * CELL_BYTES)

    def work(comm: Any) -> int:
        words, me, n = comm._dispatcher.words, comm.rank, comm.size
        assert words[c.WINDOW_BYTES // WORD] == 3 * CELL_BYTES
        turns = 0
        for length in (8 << 10, (8 << 10) + 13, 64 << 10, (256 << 10) - 1, (256 << 10) + 1, 1_000_003):
            block = np.arange(length, dtype=np.uint8)
            arrays = [np.roll(np.tile(block, n), r).reshape(n, length) for r in range(n)]
            x, row = arrays[me], arrays[me][0]
            for turn in range(5):
                words[c.WRITES // WORD] = 33  # the next one is measured
                words[c.WRITE_PACE // WORD], words[c.PASS_PACE // WORD] = (10**12, 1) if passing else (1, 10**12)
                words[c.FETCH_PACE // WORD] = 1
                root = turn % n
                assert np.array_equal(comm.all_gather(row), np.concatenate([a[0] for a in arrays]))
                assert np.array_equal(comm.all_to_all(x), np.stack([a[me] for a in arrays]))
                assert np.array_equal(comm.broadcast(row.copy(), root), arrays[root][0])
                got = comm.gather(row, root)
                assert me != root or np.array_equal(got, np.concatenate([a[0] for a in arrays]))
                assert np.array_equal(comm.scatter(x if me == root else None, root)[0], arrays[root][me])
                assert np.array_equal(comm.all_reduce(row), np.add.reduce([a[0] for a in arrays], dtype=np.uint8))
                got = comm.reduce(row, root)
                assert me != root or np.array_equal(got, np.add.reduce([a[0] for a in arrays], dtype=np.uint8))
                total = np.add.reduce([a[me] for a in arrays], dtype=np.uint8)
                assert np.array_equal(comm.reduce_scatter(x)[0], total)
                pairs = [(r, (r + 1) % n) for r in range(n)]
                assert np.array_equal(comm.collective_permute(row, pairs), arrays[me - 1][0])
                got, _ = comm.all_to_all_v(x.ravel(), [length] * n)
                assert np.array_equal(got, np.concatenate([a[me] for a in arrays]))
                odd = [length - 7 * r for r in range(n)]
                got = comm.all_gather_v(row[: odd[me]])[0]
                assert np.array_equal(got, np.concatenate([a[0][:o] for a, o in zip(arrays, odd, strict=True)]))
                got = comm.scan(row)
                assert np.array_equal(got, np.add.reduce([a[0] for a in arrays[: me + 1]], dtype=np.uint8))
                if length >= UNIT:
                    pace = words[(c.PASS_PACE if passing else c.WRITE_PACE) // WORD]
                    assert pace > 1, "nothing was measured, so nothing was written this way"
                turns += 1
        return turns

    assert ranks(number, work) == [30] * number
