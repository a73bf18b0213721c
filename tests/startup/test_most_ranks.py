"""More ranks than can share a cell, and slices too short to be counted, are refused by name before anything starts."""

import os
import subprocess
import sys

import pytest

import shmcoll
from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.protocol.reduction import shortest_slice
from shmcoll.errors import ShmcollError
from shmcoll.startup.launchers import find_placement
from tests.support.ranks import close

MOST = layout.most_ranks(layout.CELL_BYTES)


def test_every_rank_has_a_part_of_a_cell():
    """As the routines divide it: among n - 1 readers, and among all n ranks."""
    for cell_bytes in (4096, layout.CELL_BYTES):
        most = layout.most_ranks(cell_bytes)
        assert cell_bytes // most // layout.LINE > 0
        assert cell_bytes // (most - 1) // layout.LINE > 0


def test_too_many_ranks_are_refused_when_the_arena_is_made():
    with pytest.raises(ValueError, match=f"a job of {MOST + 1} ranks: shmcoll joins {MOST} at most"):
        arenas.create(MOST + 1, timeout=1)
    with pytest.raises(ValueError, match="a job of 33 ranks: shmcoll joins 32 at most"):
        arenas.create(33, timeout=1, cell_bytes=4096)
    close(arenas.create(32, timeout=1, cell_bytes=4096))


def test_too_many_ranks_are_refused_by_run():
    with pytest.raises(ValueError, match=f"nprocs must be at most {MOST}, got {MOST + 1}"):
        shmcoll.run(int, MOST + 1)


def test_too_many_ranks_are_refused_by_init():
    with pytest.raises(ValueError, match=f"a job of {MOST + 1} ranks: shmcoll joins {MOST} at most"):
        shmcoll.init(rank=0, size=MOST + 1, job="many")


def test_too_many_ranks_of_another_launcher_are_refused():
    with pytest.raises(ShmcollError, match=f"has started {MOST + 1} ranks, and shmcoll joins {MOST} at most"):
        find_placement({"RANK": "0", "WORLD_SIZE": str(MOST + 1)})


def test_too_many_ranks_are_refused_by_shmrun():
    command = [sys.executable, "-m", "shmrun", "-n", str(MOST + 1), "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"'{MOST + 1}' is not a number of ranks; give one from 1 to {MOST}, or auto" in done.stderr


@pytest.mark.parametrize("value", [1, 127])
def test_slices_that_are_too_short_are_refused(monkeypatch, value):
    monkeypatch.setenv("SHMCOLL_SLICE_BYTES", str(value))
    with pytest.raises(ValueError, match=f"SHMCOLL_SLICE_BYTES={value} is less than the shortest slice; give 128"):
        arenas.create(2, timeout=1)
    assert "SHMCOLL_SLICE_BYTES" in os.environ


@pytest.mark.parametrize("count", [0, 1, 1 << 20, 1 << 24, 1 << 28, 1 << 31, 1 << 35, 1 << 40])
@pytest.mark.parametrize("n", [2, 3, 64, MOST])
@pytest.mark.parametrize("longest", [8, 128, 32768])
def test_the_steps_of_an_operation_are_always_told_apart(count, n, longest):
    """Rounds of a ring as `all_reduce` counts them, whatever the slices."""
    length = max(longest, shortest_slice(count))
    rounds = -(-count // (n * length))
    assert rounds * n < 1 << layout.STEP_BITS
