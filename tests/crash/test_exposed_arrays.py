"""Ranks that die, leave or protect their memory while others read it."""

import ctypes
import itertools
import mmap
import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

from shmcoll.errors import CollectiveTimeout, RankFailed
from tests.support import switches

LENGTH = 4 << 20  # bytes
ONE_COPY = switches.IN_PLACE


@pytest.mark.parametrize("lost", ["protected", "unmapped"])
def test_memory_that_is_lost_meanwhile(ranks: Any, lost: str) -> None:
    """All ranks get an error that names its owner; no rank returns what it has not read."""

    def work(comm: Any) -> str:
        memory = mmap.mmap(-1, LENGTH)
        x = np.frombuffer(memory, np.uint8)
        for _ in range(3):
            comm.broadcast(x if comm.rank else np.empty_like(x), 1)
        if comm.rank == 1:
            libc = ctypes.CDLL(None, use_errno=True)
            place, length = ctypes.c_void_p(x.ctypes.data), ctypes.c_size_t(LENGTH)
            assert (libc.mprotect(place, length, 0) if lost == "protected" else libc.munmap(place, length)) == 0
        with pytest.raises(RankFailed) as told:
            comm.broadcast(x if comm.rank else np.empty_like(x), 1)
        assert told.value.rank == 1
        return str(told.value)

    for text in ranks(2, work, environment=ONE_COPY):
        assert "the array of rank 1 in broadcast #4 cannot be read any more" in text
        assert "SHMCOLL_DIRECT_BYTES=1T and SHMCOLL_EXCHANGE_BYTES=1T" in text  # see test_pace.py


def read_again_and_again(comm: Any) -> str:
    """Broadcast other values in each call. Each result is whole, or there is an error."""
    x = np.ones(8 << 20, np.uint8)
    for i in itertools.count():
        x[:] = i % 200 if comm.rank == 0 else 255
        try:
            comm.broadcast(x, 0)
        except RankFailed as error:
            return str(error)
        assert (x == i % 200).all()
    raise AssertionError


def test_a_root_that_is_killed_while_it_is_read(ranks: Any) -> None:
    job = ranks.start(2, read_again_and_again, environment=ONE_COPY)
    job.until(lambda: job.sequence(0) > 20, "20 broadcasts")
    os.kill(job.pids[0], signal.SIGKILL)
    (survivor,) = [outcome for outcome in job.finish() if outcome.rank == 1]
    assert survivor.error is None, survivor.traceback
    assert "rank 0 " in survivor.value


def test_a_limit_that_passes_while_others_read(ranks: Any) -> None:
    """Rank 1 does not come to read; rank 0 leaves with an error, and rank 1 gets one, too."""

    def work(comm: Any) -> bool:
        x = np.ones(LENGTH, np.uint8)
        for _ in range(3):
            comm.broadcast(x, 0)
        comm.timeout = 0.3
        if comm.rank == 1:
            threading.Event().wait(1.0)
        with pytest.raises((CollectiveTimeout, RankFailed)):
            comm.broadcast(x, 0)
        return True

    assert all(ranks(2, work, environment=ONE_COPY))


def test_a_view_of_an_array_of_a_rank_that_has_died(ranks: Any) -> None:
    """The memory of a shared array remains for the ranks that view it. They can read it, and send it on."""

    def work(comm: Any) -> bool:
        mine = comm.full(100_000, comm.rank)
        theirs = comm.views(mine)[2]
        comm.barrier()
        if comm.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RankFailed):
            comm.barrier()
        rest = comm.shrink()
        for _ in range(3):
            assert (rest.all_gather(theirs) == 2).all()
            assert (rest.all_reduce(theirs) == 4).all()
            assert (rest.sendrecv(theirs, 1 - rest.rank, None, 1 - rest.rank)[0] == 2).all()
        return True

    job = ranks.start(3, work, tell=True)
    assert [outcome.value for outcome in job.finish()] == [True, True, None]


def test_arrays_that_are_mapped_from_a_file(ranks: Any, tmp_path: Any) -> None:
    """They are private memory like any other."""

    def work(comm: Any) -> bool:
        x = np.memmap(tmp_path / f"x{comm.rank}", np.int64, "w+", shape=LENGTH // 8)
        out = np.memmap(tmp_path / f"out{comm.rank}", np.int64, "w+", shape=comm.size * LENGTH // 8)
        x[:] = np.arange(len(x)) + comm.rank
        for _ in range(3):
            assert comm.all_gather(x, out=out) is out
            assert all(
                np.array_equal(row, np.arange(len(x)) + rank) for rank, row in enumerate(out.reshape(comm.size, -1))
            )
            comm.sendrecv(x, 1 - comm.rank, out[: len(x)], 1 - comm.rank)
            assert np.array_equal(out[: len(x)], np.arange(len(x)) + 1 - comm.rank)
        return True

    assert all(ranks(2, work, environment=ONE_COPY))


def test_an_array_that_is_to_be_resized_while_it_is_used(ranks: Any) -> None:
    """numpy refuses to move memory to which another object refers, and a call does, until it has ended."""

    def work(comm: Any) -> bool:
        x = np.arange(LENGTH // 8) + comm.rank
        gathering = comm.all_gather(x, async_op=True)
        with pytest.raises(ValueError, match="referenc"):
            x.resize(2 * len(x))
        assert np.array_equal(gathering.wait().reshape(2, -1)[0], np.arange(LENGTH // 8))
        return True

    assert all(ranks(2, work, environment=ONE_COPY))
