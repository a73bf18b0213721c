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

LENGTH = 4 << 20  # bytes


def test_memory_that_is_protected_meanwhile(ranks: Any) -> None:
    """All ranks get an error that names its owner; no rank returns what it has not read."""

    def work(comm: Any) -> str:
        memory = mmap.mmap(-1, LENGTH)
        x = np.frombuffer(memory, np.uint8)
        for _ in range(3):
            comm.broadcast(x if comm.rank else np.empty_like(x), 1)
        if comm.rank == 1:
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.mprotect(ctypes.c_void_p(x.ctypes.data), ctypes.c_size_t(LENGTH), 0) == 0
        with pytest.raises(RankFailed) as told:
            comm.broadcast(x if comm.rank else np.empty_like(x), 1)
        assert told.value.rank == 1
        return str(told.value)

    for text in ranks(2, work):
        assert "the array of rank 1 in broadcast #4 cannot be read any more" in text
        assert "SHMCOLL_DIRECT_BYTES" in text


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
    job = ranks.start(2, read_again_and_again)
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

    assert all(ranks(2, work))
