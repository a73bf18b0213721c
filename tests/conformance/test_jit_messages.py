"""Messages from and to jitted code, on real ranks: beside those of Python, their order, their errors."""

import faulthandler
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import TypingError

from shmcoll import jit
from shmcoll.communicator import jit_handle
from shmcoll.errors import ArenaError, CollectiveTimeout, RankFailed
from tests.support import switches
from tests.support.sleepers import signal_when_asleep
from tests.support.waiting import until_asleep

HANDLE = types.Array(types.int64, 1, "C", readonly=True)
#: around the bytes beside a header, a part, a ring, and a ring that is followed by another
LENGTHS = (0, 1, 8, 9, 100, 16_384, 65_536, 65_537, 262_144, 600_001, 3_000_000)


@njit(nogil=True)
def send(h, x, dest, tag):
    jit.send(h, x, dest, tag)


@njit(nogil=True)
def recv(h, out, source, tag):
    return jit.recv(h, out, source, tag)


@njit
def exchanged(h, x, out, dest, source, tag, rounds):
    """Sends first, so often, then receives as often. Returns a sum of what `recv` has told."""
    told = 0
    for i in range(rounds):
        jit.send(h, x, dest, tag + i)
    for i in range(rounds):
        told += jit.recv(h, out, source, tag + i)[2]
    return told


@pytest.fixture(autouse=True, scope="module")
def compiled():
    """Once, in the process from which ranks are forked, and not in each of them."""
    faulthandler.cancel_dump_traceback_later()  # numba may take longer on a busy machine
    for kind in (types.uint8, types.int64):
        array, number = types.Array(kind, 1, "C"), types.int64
        send.compile((HANDLE, array, number, number))
        recv.compile((HANDLE, array, number, number))
    array = types.Array(types.uint8, 1, "C")
    exchanged.compile((HANDLE, array, array, *[types.int64] * 4))


def send_first(comm) -> list[tuple[int, int]]:
    """All send before they receive; nobody is ever read to before it has sent everything."""
    h, wrong = comm.handle, []
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for rounds in (1, 5):
        for length in LENGTHS:
            x, out = np.full(length, comm.rank + 1, np.uint8), np.full(length + 3, 99, np.uint8)
            told = exchanged(h, x, out, after, before, 7, rounds)
            if told != rounds * length or (out[:length] != before + 1).any() or (out[length:] != 99).any():
                wrong.append((rounds, length))
    return wrong


@pytest.mark.parametrize("members", [1, 2, 3, 4])
def test_all_may_send_first(ranks, members):
    assert ranks(members, send_first) == [[]] * members


def chat(comm, seed: int, rounds: int) -> int:
    """All send to all, some of it from Python, and receive by source, by tag, or as it comes; the model is a queue for
    each pair."""
    n, me, received, h = comm.size, comm.rank, 0, comm.handle
    for number in range(rounds):
        rng = np.random.default_rng([seed, number])
        waiting: list[list[tuple[int, int, int]]] = [[] for _ in range(n)]
        for i in range(int(rng.integers(1, 30))):
            source, dest, tag = (int(v) for v in rng.integers(0, (n, n, 3)))
            length, by_python = int(rng.choice(LENGTHS[:-1])), rng.random() < 0.4
            if source == me:
                x = np.full(length, i, np.uint8)
                comm.send(x, dest, tag) if by_python else send(h, x, dest, tag)
            if dest == me:
                waiting[source].append((tag, length, i))
        own = np.random.default_rng([seed, number, me])
        while any(waiting):
            which, by_python = own.integers(0, 4), own.random() < 0.4
            source = int(own.choice([s for s in range(n) if waiting[s]]))
            tag = int(own.choice([t for t, _, _ in waiting[source]]))
            asked = (source if which & 1 else jit.ANY, tag if which & 2 else jit.ANY)
            out = np.zeros(700_000, np.uint8)
            if by_python:
                got, from_, tagged = comm.recv(None, *asked)
                length = got.size
            else:
                from_, tagged, length = recv(h, out, *asked)
                got = out[:length]
            first = next(m for m in waiting[from_] if asked[1] in (jit.ANY, m[0]))
            assert asked[0] in (jit.ANY, from_)
            assert (tagged, length) == first[:2]
            assert (got == first[2]).all()
            waiting[from_].remove(first)
            received += 1
        comm.barrier()  # nobody's messages of the next round come before these have been received
    return received


@pytest.mark.parametrize("members", [1, 2, 4])
def test_random_messages_arrive_in_order(ranks, seed, members):
    assert sum(ranks(members, chat, seed, 12)) > 20


def behind_posted(comm) -> list[int]:
    """A receive of jitted code comes behind those that Python has posted, whatever comes first."""
    if comm.rank == 0:
        comm.barrier()
        until_asleep(comm, 1)
        for i in range(6):
            comm.send(np.array([i]), 1, i % 2)
        comm.barrier()
        return []
    out, told = np.zeros(1, np.int64), []
    posted = [comm.recv(async_op=True), comm.recv(tag=1, async_op=True), comm.recv(tag=0, async_op=True)]
    comm.barrier()
    for tag in (jit.ANY, 0, jit.ANY):
        recv(comm.handle, out, 0, tag)
        told.append(int(out[0]))
    comm.barrier()
    return [*(int(work.wait(20)[0][0]) for work in posted), *told]


def test_posted_receives_come_first(ranks):
    assert ranks(2, behind_posted)[1] == [0, 1, 2, 3, 4, 5]


def native(comm) -> int:
    """How often Python is asked once all is loaded, and there is room."""
    asked, real = [], jit_handle._call_back
    jit_handle._call_back = lambda *call: [asked.append(call), real(*call)]
    x, out, other = np.zeros(1000, np.uint8), np.zeros(1000, np.uint8), 1 - comm.rank
    for _ in range(3):
        exchanged(comm.handle, x, out, other, other, 0, 3)
    del asked[:]
    for _ in range(100):
        exchanged(comm.handle, x, out, other, other, 0, 3)
        exchanged(comm.handle, x[:500], out, other, other, 0, 3)
    return len(asked)


def test_python_has_no_part_in_it(ranks):
    assert ranks(2, native) == [0, 0]


@njit
def by_default(h, x):
    jit.send(h, x, 0)
    return jit.recv(h, x)


@njit
def to_a_float(h, x):
    jit.send(h, x, 0.5)


@njit
def into_a_transposed(h, x):
    jit.recv(h, x.T)


WRONG: dict[str, tuple[Callable[[Any, np.ndarray], Any], type[Exception], str]] = {
    "dest": (lambda h, x: send(h, x, 2, 0), ValueError, "send on rank 1: dest 2 is not a rank of this group of 2"),
    "tag": (lambda h, x: send(h, x, 0, -1), ValueError, "send on rank 1: tag -1 is out of range"),
    "source": (
        lambda h, x: recv(h, x, -2, 0),
        ValueError,
        "recv on rank 1: source -2 is not a rank of this group of 2",
    ),
    "tag of recv": (lambda h, x: recv(h, x, 0, 1 << 31), ValueError, "recv on rank 1: tag 2147483648 is out of range"),
    "oneself": (lambda h, x: recv(h, x, 1, 3), ValueError, "no message that this rank has sent to itself fits"),
    "a float": (to_a_float, TypingError, "dest must be an integer, got float64"),
    "columns": (lambda h, x: into_a_transposed(h, x.reshape(2, 2)), TypingError, "out must be a C-contiguous array"),
    "short": (lambda h, x: recv(h, x[:2], 0, 5), ValueError, "has 3 x int64, out has room for 2 x int64. It stays"),
    "dtype": (lambda h, x: recv(h, x.astype(np.uint8), 0, 5), TypeError, "out has room for 4 x uint8. It stays"),
    "object": (lambda h, x: recv(h, x, 0, 6), TypeError, "with tag 6, is an object of "),
}


def refuse(comm) -> list[tuple[str, str]]:
    """Each wrong call, and then that nothing was lost by it."""
    told, h, x = [], comm.handle, np.arange(4)
    if comm.rank == 0:
        comm.send(np.array([4, 5, 6]), 1, 5)
        comm.send_object("object", 1, 6)
    else:
        for name, (call, kind, _) in WRONG.items():
            with pytest.raises(kind) as refused:
                call(h, x)
            told.append((name, str(refused.value)))
        assert recv(h, x, jit.ANY, jit.ANY) == (0, 5, 3)
        assert x.tolist() == [4, 5, 6, 3]
        assert comm.recv_object()[0] == "object"
    comm.barrier()
    assert jit.send(h, x, comm.rank, 9) is None  # from Python
    assert jit.recv(h, np.zeros(6, int)) == (comm.rank, 9, 4)
    return told


def test_wrong_calls_are_refused(ranks):
    told = ranks(2, refuse)[1]
    assert [name for name, _ in told] == list(WRONG)
    for name, text in told:
        assert WRONG[name][2] in text


def to_itself(comm) -> tuple:
    return by_default(comm.handle, np.zeros((2, 3)))


def test_source_and_tag_may_be_left_out(ranks):
    assert ranks(1, to_itself) == [(0, 0, 6)]


def lose(comm) -> list[str]:
    h, x = comm.handle, np.zeros(1, np.uint8)
    if comm.rank == 1:
        send(h, x, 0, 0)
        os.kill(os.getpid(), signal.SIGKILL)
    told = []
    assert recv(h, x, 1, 0) == (1, 0, 1)
    for call in (lambda: recv(h, x, 1, 0), lambda: send(h, x, 1, 0), lambda: recv(h, x, -1, -1)):
        with pytest.raises(RankFailed) as failed:
            call()
        told.append(str(failed.value))
    return told


def test_a_dead_rank_raises_in_the_jitted_function(ranks):
    outcome = ranks.start(2, lose).finish()[0]
    assert outcome.error is None, outcome.traceback
    assert outcome.value[0].startswith("recv(source=1, tag=0) on rank 0: rank 1 ")
    assert outcome.value == [outcome.value[0]] * 3


def in_vain(comm) -> str:
    comm.timeout = 0.3
    with pytest.raises((CollectiveTimeout, RankFailed)) as late:
        recv(comm.handle, np.zeros(1, np.uint8), 1 - comm.rank, 4)
    return str(late.value)


def test_who_waits_in_vain_is_told(ranks):
    """By the rank whose limit passes first, which may be either."""
    assert any(re.search(" s; rank [01] has sent nothing with tag 4", text) for text in ranks(2, in_vain))


def interrupt(comm) -> str:
    if comm.rank == 0:
        with pytest.raises(RankFailed) as caught:
            recv(comm.handle, np.zeros(1, np.uint8), 1, 0)
        return str(caught.value)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal_when_asleep(comm)
    with pytest.raises(KeyboardInterrupt):
        recv(comm.handle, np.zeros(1, np.uint8), 0, 3)
    return ""


def test_ctrl_c_ends_a_receive_and_the_group(ranks):
    assert "rank 1 was interrupted in recv(source=0, tag=3)" in ranks(2, interrupt)[0]


def full(comm) -> list[str]:
    """A heap that is full is the sender's error alone; who has too little room for what was taken back never knows."""
    h, texts = comm.handle, []
    if comm.rank == 0:
        for i in range(3):
            send(h, np.full(1, i, np.uint8), 1, i)
            with pytest.raises(ArenaError) as error:
                send(h, np.zeros(9_000_000, np.uint8), 1, 9)
            texts.append(str(error.value))
    comm.barrier()
    if comm.rank == 1:
        out = np.zeros(2, np.uint8)
        assert recv(h, out, 0, -1) == (0, 0, 1)
        assert recv(h, out, 0, -1) == (0, 1, 1)
        assert comm.recv(out)[1:] == (0, 2)
        assert out[0] == 2
    comm.barrier()
    return texts


def test_a_full_heap_raises_in_the_jitted_function(ranks, hasty_sends):
    texts = ranks(2, full, environment=switches.heap("8M"))[0]
    assert len(texts) == 3
    for text in texts:
        assert text.startswith("send on rank 0: the heap is full: ")
        assert text.endswith("The message has not been sent")
