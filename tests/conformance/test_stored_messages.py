"""Messages that asynchronous sends store at once, in heaps of any size: see `engine/messages/ring_buffers.py`."""

import os
import signal
from typing import Any

import numpy as np
import pytest

import shmcoll
from tests.support import switches

LENGTHS = (switches.PART_BYTES // 8 + 1, 1 << 17, switches.STORED_BYTES // 8, switches.STORED_BYTES // 8 + 1)
HEAPS = ("10M", "12M", "40M", "1G")


def values(rank: int, turn: int, length: int) -> Any:
    return np.arange(length) * 7 + rank + turn * 1_000_003


def test_an_asynchronous_send_is_done_at_once(ranks: Any) -> None:
    """The array may be changed as soon as the call has returned. Nobody receives yet."""

    def work(comm: Any) -> list[bool]:
        done = []
        for length in LENGTHS[:3]:
            x = values(comm.rank, 0, length)
            sent = comm.send(x, 1 - comm.rank, async_op=True)
            done.append(sent.done())
            x[:] = -1
            sent.wait()
            assert np.array_equal(comm.recv(None, 1 - comm.rank)[0], values(1 - comm.rank, 0, length))
        return done

    assert ranks(2, work) == [[True] * 3] * 2


def test_many_messages_before_any_is_received(ranks: Any) -> None:
    def work(comm: Any) -> bool:
        length, count = 1 << 17, 12
        works = [comm.send(values(comm.rank, i, length), 1 - comm.rank, i, async_op=True) for i in range(count)]
        shmcoll.wait_all(works)
        comm.barrier()
        for i in (*range(1, count), 0):  # the first one last
            assert np.array_equal(comm.recv(None, 1 - comm.rank, i)[0], values(1 - comm.rank, i, length))
        return True

    assert all(ranks(2, work))


@pytest.mark.parametrize("heap", HEAPS)
@pytest.mark.parametrize("size", [2, 3])
def test_exchanges_in_heaps_of_any_size(ranks: Any, size: int, heap: str) -> None:
    """With little memory the worker sends, as if nothing could be stored."""

    def work(comm: Any) -> bool:
        after, before = (comm.rank + 1) % size, (comm.rank - 1) % size
        for turn, length in enumerate(LENGTHS * 3):
            x, outs = values(comm.rank, turn, length), [np.empty(length, np.int64) for _ in range(2)]
            receiving = [comm.recv(out, before, tag, async_op=True) for tag, out in enumerate(outs)]
            shmcoll.wait_all([comm.send(x, after, tag, async_op=True) for tag in range(2)] + receiving)
            for out in outs:
                assert np.array_equal(out, values(before, turn, length))
            outs[0][:] = -1
            comm.sendrecv(x, after, outs[0], before)
            assert np.array_equal(outs[0], values(before, turn, length))
            sending = comm.send(x, after, async_op=True)
            assert np.array_equal(comm.recv(None, before)[0], values(before, turn, length))
            sending.wait()
        return True

    assert all(ranks(size, work, environment=switches.heap(heap)))


@pytest.mark.parametrize(("heap", "is_longer"), [("20M", False), ("1G", True)])
def test_only_a_small_part_of_the_heap_is_for_long_rings(ranks: Any, heap: str, is_longer: bool) -> None:
    def work(comm: Any) -> bool:
        x, other = np.arange(switches.USUAL_RING // 8), 1 - comm.rank
        for turn in range(20):
            receiving = comm.recv(np.empty_like(x), other, async_op=True)
            shmcoll.wait_all([comm.send(x + turn, other, async_op=True), receiving])
            assert np.array_equal(receiving.wait()[0], x + turn)
        return switches.last_ring(comm, other) > 2 * switches.USUAL_RING

    assert ranks(2, work, environment=switches.heap(heap)) == [is_longer] * 2


def test_a_receiver_that_is_killed(ranks: Any) -> None:
    """Sends that were stored are done. The next send or the receive names the rank that has failed."""

    def work(comm: Any) -> str:
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        out = np.empty(1 << 17, np.int64)
        with pytest.raises(shmcoll.RankFailed) as failed:
            receiving = comm.recv(out, 1, async_op=True)
            for _ in range(3):
                comm.send(out, 1, async_op=True).wait()
            receiving.wait()
        return str(failed.value)

    assert "rank 1" in ranks.outcomes(2, work)[0].value
