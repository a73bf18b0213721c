"""Long messages both ways at once: they flow through rings, without memory for what is on its way."""

import os
import signal
import time
from typing import Any

import numpy as np
import pytest

import shmcoll
from tests.support import switches
from tests.support.sleepers import signal_when_asleep
from tests.support.waiting import until, until_asleep

HEAP = switches.heap("4M")  # much less than a message
LENGTH = 3_000_001


def pattern(source: int, step: int, length: int = LENGTH) -> np.ndarray:
    return np.arange(source * 1000 + step, source * 1000 + step + length, dtype=np.int32)


def exchange(comm: Any) -> None:
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step, room in enumerate((LENGTH, LENGTH + 5, 0)):
        out = np.zeros(room, np.int32) if room else None
        got, source, tag = comm.sendrecv(pattern(comm.rank, step), after, out, before, step, step)
        assert (source, tag, got.shape) == (before, step, (LENGTH,))
        assert (got == pattern(before, step)).all()
        assert out is None or np.shares_memory(got, out)
    assert switches.held(comm) <= 4 << 20


@pytest.mark.parametrize("members", [2, 3, 4])
def test_a_ring_of_ranks_exchanges_more_than_the_heap_holds(ranks, members):
    ranks(members, exchange, environment=HEAP)


class Shows:
    """What is not an array and shows its memory."""

    def __init__(self, array: np.ndarray):
        self.array = array

    @property
    def __array_interface__(self) -> Any:
        return self.array.__array_interface__


def exchange_what_is_no_array(comm: Any) -> None:
    """Long and short; on memory that something else shows, of odd strides, of a subclass."""
    other = 1 - comm.rank
    for length in (10, LENGTH):
        sent, wanted = pattern(comm.rank, 0, length), pattern(other, 0, length)
        out = Shows(np.zeros(length, np.int32))
        assert comm.sendrecv(Shows(sent), other, out)[0] is out
        assert (out.array == wanted).all()
        raw = bytearray(4 * length)
        assert comm.sendrecv(sent.view(np.uint8), other, raw)[0] is raw
        assert raw == wanted.tobytes()
        wide = np.zeros((length, 2), np.int32)
        assert np.shares_memory(comm.sendrecv(np.repeat(sent, 2)[::2], other, wide[:, 0])[0], wide)
        assert (wide[:, 0] == wanted).all() and not wide[:, 1].any()
        both = sent.copy()
        assert (comm.sendrecv(both[:-1], other, both[1:])[0] == wanted[:-1]).all()
        assert (comm.sendrecv(sent.tolist(), other)[0] == wanted).all()


def test_an_exchange_of_what_is_no_array(ranks):
    ranks(2, exchange_what_is_no_array, environment=switches.heap("64M"))


def exchange_with_who_is_late(comm: Any, first: str) -> None:
    """Rank 1 comes later, and receives first, or sends first, or does both at once."""
    other = 1 - comm.rank
    for step in range(3):
        comm.barrier()
        if comm.rank == 0:
            got = comm.sendrecv(pattern(0, step), other)[0]
        else:
            time.sleep(0.02)
            if first == "recv":
                got = comm.recv()[0]
                comm.send(pattern(1, step), other)
            elif first == "send":
                comm.send(pattern(1, step), other)
                got = comm.recv()[0]
            else:
                got = comm.sendrecv(pattern(1, step), other)[0]
        assert (got == pattern(other, step)).all()


@pytest.mark.parametrize("first", ["recv", "send", "sendrecv"])
def test_an_exchange_with_who_is_late(ranks, first):
    ranks(2, exchange_with_who_is_late, first, environment=switches.heap("64M"))


def exchange_what_does_not_fit(comm: Any) -> str:
    """The message stays, and the other half is done."""
    other = 1 - comm.rank
    with pytest.raises(ValueError, match="out has room for 3000000 x int32") as error:
        comm.sendrecv(pattern(comm.rank, 0), other, np.zeros(LENGTH - 1, np.int32))
    with pytest.raises(TypeError, match="out has room for 3000001 x float64"):
        comm.recv(np.zeros(LENGTH))
    assert (comm.recv()[0] == pattern(other, 0)).all()
    for length in (1, LENGTH):
        for bad in ({"source": 7}, {"recvtag": -3}, {"dest": 9}, {"sendtag": 1.5}, {"out": [1]}, {"out": b"read-only"}):
            with pytest.raises((ValueError, TypeError, IndexError)):
                comm.sendrecv(pattern(comm.rank, 0, length), **{"dest": other} | bad)
    comm.barrier()
    assert comm.sendrecv(np.array([comm.rank]), other)[0].item() == other  # nothing was sent by these
    return str(error.value)


def test_what_is_exchanged_does_not_fit(ranks):
    texts = ranks(2, exchange_what_does_not_fit, environment=switches.heap("64M"))
    assert texts[0].startswith("recv(source=ANY, tag=ANY) on rank 0: the next message, from rank 1 with tag 0, has ")


def exchange_by_tag(comm: Any) -> None:
    """What is wanted lies behind another message, which is not."""
    other = 1 - comm.rank
    comm.send(np.array([comm.rank]), other, 5)
    got, _, tag = comm.sendrecv(pattern(comm.rank, 1), other, None, other, 4, 4)
    assert tag == 4 and (got == pattern(other, 1)).all()
    assert comm.recv(tag=5)[0].item() == other


def test_an_exchange_before_its_turn(ranks):
    ranks(2, exchange_by_tag, environment=switches.heap("64M"))


def post_then_send(comm: Any) -> None:
    """Receives are posted; then a blocking send, an asynchronous one, and an object: all long, both ways."""
    other = 1 - comm.rank
    for step in range(2):
        outs = [np.zeros(LENGTH, np.int32), None]
        works = [comm.recv(out, other, tag, async_op=True) for tag, out in enumerate(outs)]
        works.append(comm.recv_object(other, 2, async_op=True))
        comm.barrier()
        comm.send(pattern(comm.rank, step), other, 0)
        sent = comm.send(pattern(comm.rank, step + 10), other, 1, async_op=True)
        comm.send_object([pattern(comm.rank, step + 20), "and so on"], other, 2)
        for tag in range(2):
            got, source, told = works[tag].wait(20)
            assert (source, told) == (other, tag)
            assert (got == pattern(other, step + 10 * tag)).all()
        array, text = works[2].wait(20)[0]
        assert (array == pattern(other, step + 20)).all() and text == "and so on"
        sent.wait(20)
        assert works[0].wait()[0] is outs[0]
    comm.barrier()
    assert switches.held(comm) <= 4 << 20


def test_what_is_posted_is_received_while_sending(ranks):
    ranks(2, post_then_send, environment=HEAP)


def post_then_send_behind_another(comm: Any) -> None:
    """What is sent has to be kept whole, as it lies behind a message that nobody takes yet, and there is no memory."""
    other = 1 - comm.rank
    for step in range(2):
        comm.send(np.array([comm.rank]), other, 9)
        work = comm.recv(source=other, tag=5, async_op=True)
        comm.barrier()
        with pytest.raises(shmcoll.ArenaError, match=f"send on rank {comm.rank}.*The message has not been sent"):
            comm.send(pattern(comm.rank, step), other, 5)
        comm.barrier()
        assert comm.recv(tag=9)[0].item() == other
        comm.send(pattern(comm.rank, step), other, 5)
        assert (work.wait(20)[0] == pattern(other, step)).all()


def test_there_is_no_memory_for_what_is_sent_beside_a_receive(ranks, hasty_sends):
    ranks(2, post_then_send_behind_another, environment=HEAP, timeout=10)


def send_to_who_is_late(comm: Any, posted: bool) -> None:
    """There is no memory for the messages, and the receiver comes when the sender has been waiting for a while."""
    if comm.rank == 0:
        sends = [comm.send(pattern(0, 0), 1, async_op=True)]
        if posted:
            receive = comm.recv(source=1, tag=9, async_op=True)
        sends += [comm.send(pattern(0, 1), 1, async_op=True), comm.send(np.array([2]), 1, async_op=True)]
        comm.send(pattern(0, 3), 1)
        comm.send_object([pattern(0, 4), "and so on"], 1)
        for work in sends:
            work.wait(20)
        if posted:
            assert receive.wait(20)[0].item() == 7
    else:
        for step in range(4):
            until_asleep(comm, 0)
            assert (comm.recv()[0] == (2 if step == 2 else pattern(0, step))).all()
        until_asleep(comm, 0)
        array, text = comm.recv_object()[0]
        assert (array == pattern(0, 4)).all() and text == "and so on"
        comm.send(np.array([7]), 0, 9)
    comm.barrier()
    assert switches.held(comm) <= 4 << 20


@pytest.mark.parametrize("posted", [False, True])
def test_without_memory_a_send_waits_for_its_receiver(ranks, posted):
    ranks(2, send_to_who_is_late, posted, environment=HEAP)


def send_without_any_memory(comm: Any, posted: bool) -> str:
    """There is none for the first ring either, until the other rank gives some back."""
    other, text = 1 - comm.rank, ""
    mine = comm.zeros((2 << 20) - 4096, np.uint8)
    if posted:
        comm.recv(source=other, tag=9, async_op=True)
    comm.barrier()
    if comm.rank == 0:
        with pytest.raises(shmcoll.ArenaError) as error:
            comm.send(np.array([1]), 1)
        text = str(error.value)
        switches.set_limit("HEAP_PATIENCE", 5.0)
        comm.barrier()
        comm.send(np.array([2]), 1)
    else:
        comm.barrier()
        time.sleep(0.3)
        del mine
        assert comm.recv()[0].item() == 2
    comm.barrier()
    if posted:
        comm.send(np.array([3]), other, 9)
    return text


@pytest.mark.parametrize("posted", [False, True])
def test_a_send_without_any_memory(ranks, hasty_sends, posted):
    text = ranks(2, send_without_any_memory, posted, environment=HEAP)[0]
    assert text.startswith("send on rank 0: the heap is full: ")
    assert "Waited 0.1 s for its receiver; where both sides send first, sendrecv needs no memory." in text
    assert text.endswith("The message has not been sent")


def send_to_who_dies(comm: Any) -> str:
    """The sender has no memory and waits for a receiver who does not come."""
    if comm.rank == 1:
        until_asleep(comm, 0)
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(shmcoll.RankFailed) as error:
        comm.send(pattern(0, 0), 1)
    return str(error.value)


def test_the_receiver_dies_while_a_send_waits_for_it(ranks):
    outcome = ranks.outcomes(2, send_to_who_dies, environment=HEAP)[0]
    assert outcome.error is None, outcome.traceback
    assert "rank 1 " in outcome.value


def exchange_batch(comm: Any) -> None:
    """With both neighbours of a ring at once."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    works = comm.batch(
        [
            shmcoll.Recv(None, before, 1),
            shmcoll.Recv(None, after, 2),
            shmcoll.Send(pattern(comm.rank, 1), after, 1),
            shmcoll.Send(pattern(comm.rank, 2), before, 2),
        ]
    )
    assert (works[0].wait(20)[0] == pattern(before, 1)).all()
    assert (works[1].wait(20)[0] == pattern(after, 2)).all()
    for work in works:
        work.wait(20)


def test_a_batch_of_long_messages(ranks):
    ranks(3, exchange_batch, environment=HEAP)


def exchange_while_one_is_killed(comm: Any) -> str:
    with pytest.raises(shmcoll.RankFailed) as error:
        while True:
            comm.sendrecv(pattern(comm.rank, 0), (comm.rank + 1) % comm.size)
    return str(error.value)


def test_a_rank_is_killed_in_an_exchange(ranks):
    outcomes = ranks.outcomes(3, exchange_while_one_is_killed, environment=switches.fault(1, "kill", 3000))
    assert outcomes[1].status == -9
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome.error is None, outcome.traceback
        assert "rank 1 " in outcome.value


def recv_behind_posted(comm: Any, objects: bool) -> None:
    """What is posted waits for its turn behind a barrier when the blocking receive is called."""
    late = comm.barrier(async_op=True)
    if comm.rank == 0:
        first = comm.recv_object(1, async_op=True) if objects else comm.recv(source=1, async_op=True)
        second = comm.recv_object(1) if objects else comm.recv(source=1)
        assert (first.wait(20)[0], second[0]) == (1, 2)
    else:
        for i in (1, 2):
            comm.send_object(i, 0) if objects else comm.send(np.array(i), 0)
    late.wait(20)
    comm.barrier()


@pytest.mark.parametrize("objects", [False, True])
def test_a_blocking_receive_comes_after_what_was_posted_before(ranks, objects):
    for _ in range(3):
        ranks(2, recv_behind_posted, objects)


def send_slowly(comm: Any, board: np.ndarray) -> None:
    """The heap is full of messages, and the receiver takes one after the other: the next one moves with them."""
    small = np.ones(8000)
    if comm.rank == 0:
        with pytest.raises(shmcoll.ArenaError):
            while True:
                comm.send(small, 1, 1)
                board[0] += 1
        board[1] = 1
        comm.send(np.ones(5 * 131072), 1, 2)
    else:
        until(lambda: board[1])
        for _ in range(board[0]):
            comm.recv(tag=1)
            time.sleep(0.02)
        assert comm.recv(source=0, tag=2)[0].size == 5 * 131072


def test_a_send_that_moves_is_not_refused(ranks, board, monkeypatch):
    switches.set_limit("HEAP_PATIENCE", 1.0, monkeypatch)
    ranks(2, send_slowly, board, environment=switches.heap("9M"))


def exchange_with_itself(comm: Any) -> str:
    """Nobody else can make room, so there is nothing to wait for."""
    with pytest.raises(shmcoll.ArenaError) as error:
        comm.sendrecv(pattern(comm.rank, 0), comm.rank, source=comm.rank)
    comm.send(np.array([3]), comm.rank)
    assert comm.recv()[0].item() == 3
    return str(error.value)


def test_an_exchange_with_itself_without_memory(ranks):
    for text in ranks(2, exchange_with_itself, environment=HEAP, timeout=5):
        assert text.endswith("The message has not been sent")


def batch_without_a_first_ring(comm: Any) -> None:
    """Rank 0 has no memory for what it sends, and gets none before it has received what lies in the heap."""
    messages = 20
    if comm.rank == 1:
        for i in range(messages):
            comm.send(np.full(60000, i, np.uint8), 0)
    comm.barrier()
    if comm.rank == 0:
        rest: list[np.ndarray] = []
        for length in (1 << 20, 1 << 16, 1 << 12):
            with pytest.raises(shmcoll.ArenaError):
                while True:
                    rest.append(comm.empty(length, "uint8"))
        batch: list[Any] = [shmcoll.Recv(None, 1) for _ in range(messages)]
        *receives, last = comm.batch([*batch, shmcoll.Send(np.ones(4), 1, 9)])
        for i, work in enumerate(receives):
            assert (work.wait(20)[0] == i).all()
        rest.clear()
        last.wait(20)
    else:
        assert comm.recv(tag=9)[0].size == 4


def test_who_cannot_begin_to_send_receives(ranks):
    ranks(2, batch_without_a_first_ring, environment=switches.heap("3M"))


def give_up(comm: Any) -> str:
    """A signal handler raises while a blocking receive waits behind a posted one: what comes is not lost in silence."""

    class Late(Exception):
        pass

    def handler(*_: object) -> None:
        raise Late

    if comm.rank == 0:
        signal.signal(signal.SIGALRM, handler)
        comm.recv(source=1, tag=7, async_op=True)
        signal_when_asleep(comm)
        with pytest.raises(Late):
            comm.recv(source=1, tag=5)
    with pytest.raises(shmcoll.RankFailed) as error:
        comm.recv(source=1 - comm.rank, tag=5)
    return str(error.value)


def test_a_receive_that_is_given_up_behind_a_posted_one_ends_the_group(ranks):
    for text in ranks(2, give_up):
        assert "rank 0 was interrupted in recv" in text
