"""Long messages that the receiver copies from the sender's array: over private, shared and mixed arrays.

See `engine/messages/offer.py`. The tests look into the rings: one in which nothing was copied would prove nothing.

A receiver that comes late gets a message from the ring, and on a busy machine it may come late often. The ring then
grows, and has room for the messages that follow. A ring of more than KEPT_RING is given back. So longer messages are
offered each time, and a test repeats them until one was copied.
"""

from typing import Any

import numpy as np
import pytest

import shmcoll
from tests.support import switches

SMALL = {"SHMCOLL_EXCHANGE_BYTES": "1", "SHMCOLL_SHARED_BYTES": "1"}
KINDS = ("private", "shared", "mixed")
LENGTHS = (70_000, 150_001, 300_000)  # of 8 bytes: more than a ring has room for
ALWAYS_OFFERED = switches.KEPT_RING // 8 + 1
TURNS, MOST_TURNS = 4, 600


def is_shared(kind: str, rank: int) -> bool:
    return kind == "shared" or (kind == "mixed" and rank % 2 == 0)


def make(comm: Any, kind: str, length: int) -> Any:
    return comm.empty(length, np.int64) if is_shared(kind, comm.rank) else np.empty(length, np.int64)


def values(rank: int, turn: int, length: int) -> Any:
    return np.arange(length) * 7 + rank + turn * 1_000_003


def every_way(comm: Any, kind: str, length: int, turns: int) -> set[str]:
    """Send in every way; return the ways in which a message was copied from this rank's array."""
    n, me = comm.size, comm.rank
    after, before = (me + 1) % n, (me - 1) % n
    x, out, found = make(comm, kind, length), make(comm, kind, length), set[str]()

    def check(way: str, turn: int, received: Any) -> None:
        assert np.array_equal(received, values(before, turn, length)), way
        if switches.was_copied(comm, after):
            found.add(way)
        out[:] = -1

    for turn in range(turns):
        x[:] = values(me, turn, length)
        if me % 2:
            comm.recv(out, before)
            comm.send(x, after)
        else:
            comm.send(x, after)
            comm.recv(out, before)
        check("send", turn, out)
        comm.sendrecv(x, after, out, before)
        check("sendrecv", turn, out)
        check("sendrecv into a new array", turn, comm.sendrecv(x, after, None, before)[0])
        receiving = comm.recv(out, before, async_op=True)
        sending = comm.send(x, after, async_op=True)
        sending.wait()
        receiving.wait()
        check("both asynchronous", turn, out)
        receiving = comm.recv(out, before, async_op=True)
        comm.send(x, after, synchronous=True)
        receiving.wait()
        check("synchronous", turn, out)
        sending = comm.send(x, after, 5, async_op=True)
        comm.send(x[:3], after, 6)
        assert comm.recv(None, before, 6)[0].tolist() == values(before, turn, 3).tolist()
        assert comm.recv(out, shmcoll.ANY, 5)[1] == before
        sending.wait()
        check("out of turn, from any rank", turn, out)
        assert np.array_equal(
            comm.sendrecv_object(x.tobytes(), after, before)[0], values(before, turn, length).tobytes()
        )
        x[:] = -2
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 3])
def test_every_way_of_sending(ranks: Any, size: int, kind: str) -> None:
    def work(comm: Any) -> tuple[bool, bool]:
        found = set().union(*(every_way(comm, kind, length, TURNS) for length in LENGTHS))
        for _ in range(MOST_TURNS):
            told = comm.all_gather_object(found)
            copied = all("sendrecv" in ways for ways in told), any("send" in ways for ways in told)
            if all(copied):
                break
            found |= every_way(comm, kind, ALWAYS_OFFERED, 1)
        return copied

    assert ranks(size, work, environment=SMALL) == [(True, True)] * size


def test_ranks_that_send_before_they_receive(ranks: Any) -> None:
    """No rank comes to copy: the messages are stored, and the sender may change its array."""

    def work(comm: Any) -> bool:
        x, out = np.arange(300_000) + comm.rank, np.empty(300_000, np.int64)
        for turn in range(5):
            comm.send(x, 1 - comm.rank)
            x += 10
            comm.recv(out, 1 - comm.rank)
            assert np.array_equal(out, np.arange(300_000) + 1 - comm.rank + 10 * turn)
        return True

    assert all(ranks(2, work, environment=SMALL))


def test_a_message_stays_when_it_does_not_fit(ranks: Any) -> None:
    def work(comm: Any) -> bool:
        x = np.arange(100_000)
        for _ in range(5):
            if comm.rank == 0:
                comm.send(x, 1)
            else:
                with pytest.raises(ValueError, match="100000"):
                    comm.recv(np.empty(99_999, x.dtype), 0)
                with pytest.raises(TypeError):
                    comm.recv(np.empty(100_000), 0)
                assert np.array_equal(comm.recv(np.empty_like(x), 0)[0], x)
        return True

    assert all(ranks(2, work, environment=SMALL))


def test_memory_of_a_rank_that_cannot_be_read(ranks: Any) -> None:
    """A witness that differs is that of another process. Shared arrays are copied all the same."""

    def work(comm: Any) -> dict[str, bool]:
        if comm.rank == 1:
            switches.refuse_reads(comm)
        comm.barrier()
        copied = {}
        for kind in ("private", "shared"):
            x, out = make(comm, kind, ALWAYS_OFFERED), make(comm, kind, ALWAYS_OFFERED)
            copied[kind] = False
            for turn in range(TURNS if kind == "private" else MOST_TURNS):
                x[:] = values(comm.rank, turn, len(x))
                comm.barrier()
                comm.sendrecv(x, 1 - comm.rank, out, 1 - comm.rank)
                assert np.array_equal(out, values(1 - comm.rank, turn, len(x)))
                copied[kind] |= switches.was_copied(comm, 1 - comm.rank)
                if comm.broadcast(copied[kind], 1):
                    break
        return copied

    assert ranks(2, work, environment=SMALL)[1] == {"private": False, "shared": True}


def test_messages_for_which_there_is_room_go_through_the_ring(ranks: Any) -> None:
    def work(comm: Any) -> bool:
        length = switches.USUAL_RING // 4
        x, out, copied = np.ones(length, np.uint8), np.empty(length, np.uint8), False
        for _ in range(TURNS):
            comm.sendrecv(x, 1 - comm.rank, out, 1 - comm.rank)
            comm.send(x, 1 - comm.rank)
            comm.recv(out, 1 - comm.rank)
            copied |= switches.was_copied(comm, 1 - comm.rank)
        return copied

    assert ranks(2, work, environment=SMALL) == [False, False]
