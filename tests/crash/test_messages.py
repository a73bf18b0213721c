"""Messages when something goes wrong: wrong arguments, arrays that do not fit, peers that die, leave or stay away."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.errors import CollectiveTimeout, RankFailed
from tests.support import switches
from tests.support.waiting import until, until_ended

X = np.ones(3)

#: on rank 1 of 2: the call, the error, and what its message must contain
WRONG: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "x is not an array": (lambda c: c.send("abc", 0), TypeError, "send on rank 1: x is not an array: str; for"),
    "dest is too large": (
        lambda c: c.send(X, 2), ValueError, "send on rank 1: dest 2 is not a rank of this group of 2; use 0 to 1",
    ),
    "dest is negative": (lambda c: c.send(X, -1), ValueError, "dest -1 is not a rank"),
    "dest is a float": (lambda c: c.send(X, 1.0), TypeError, "dest must be an integer, got float"),
    "dest is a bool": (lambda c: c.send(X, True), TypeError, "dest must be an integer, got bool"),
    "tag is negative": (
        lambda c: c.send(X, 0, -1), ValueError, "send on rank 1: tag -1 is out of range; use 0 to 2147483647",
    ),
    "tag is too large": (lambda c: c.send(X, 0, 1 << 31), ValueError, "tag 2147483648 is out of range"),
    "tag is a string": (lambda c: c.send(X, 0, "a"), TypeError, "tag must be an integer, got str"),
    "source is too large": (
        lambda c: c.recv(source=2), ValueError,
        "recv on rank 1: source 2 is not a rank of this group of 2; use 0 to 1, or shmcoll.ANY",
    ),
    "source is a string": (lambda c: c.recv(source="1"), TypeError, "source must be an integer, got str"),
    "tag of recv is too small": (lambda c: c.recv(tag=-2), ValueError, "recv on rank 1: tag -2 is out of range"),
    "out is a list": (lambda c: c.recv([0.0]), TypeError, "recv on rank 1: out must be an array, got list"),
    "out is read-only": (lambda c: c.recv(np.broadcast_to(X, (2, 3))), ValueError, "recv on rank 1: out is read-only"),
    "out of objects": (lambda c: c.recv(np.full(3, None)), TypeError, "out has dtype object, whose elements"),
    "from oneself": (
        lambda c: c.recv(source=1, tag=3), ValueError,
        "recv(source=1, tag=3) on rank 1: no message that this rank has sent to itself fits",
    ),
    "async tag": (lambda c: c.recv(tag=-5, async_op=True), ValueError, "recv on rank 1: tag -5 is out of range"),
    "object: dest": (
        lambda c: c.send_object("", 2), ValueError,
        "send_object on rank 1: dest 2 is not a rank of this group of 2; use 0 to 1",
    ),
    "object: dest is a float": (lambda c: c.send_object("", 0.0), TypeError, "dest must be an integer, got float"),
    "object: tag": (lambda c: c.send_object("", 0, -1), ValueError, "send_object on rank 1: tag -1 is out of range"),
    "object: no pickle": (
        lambda c: c.send_object(lambda: 0, 0), TypeError,
        "send_object on rank 1: a function cannot be pickled: ",
    ),
    "object: no pickle, async": (
        lambda c: c.send_object(lambda: 0, 0, async_op=True).wait(20), TypeError, "a function cannot be pickled: ",
    ),
    "object: source": (
        lambda c: c.recv_object(source=2), ValueError,
        "recv_object on rank 1: source 2 is not a rank of this group of 2; use 0 to 1, or shmcoll.ANY",
    ),
    "object: tag of recv": (lambda c: c.recv_object(tag="a"), TypeError, "recv_object on rank 1: tag must be an int"),
    "object: async tag": (lambda c: c.recv_object(tag=-5, async_op=True), ValueError, "tag -5 is out of range"),
    "object: from oneself": (
        lambda c: c.recv_object(1, 3), ValueError,
        "recv_object(source=1, tag=3) on rank 1: no message that this rank has sent to itself fits",
    ),
    "no message": (lambda c: c.batch([X]), TypeError, "batch on rank 1: ndarray is not a message; use shmcoll.Send("),
    "batch": (lambda c: c.batch([shmcoll.Recv(), shmcoll.Send(X, 5)]), ValueError, "dest 5 is not a rank"),
}  # fmt: skip


def refuse(comm) -> list[tuple[str, str]]:
    """Each wrong call, and then that nothing was lost by it."""
    told = []
    for name, (call, kind, _) in WRONG.items():
        if comm.rank == 1:
            with pytest.raises(kind) as refused:
                call(comm)
            assert type(refused.value) is kind
            told.append((name, str(refused.value)))
            comm.send(X, 0, 7)
        else:
            assert comm.recv(tag=7)[1:] == (1, 7)
    comm.barrier()
    return told


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])
def test_wrong_arguments_are_refused(ranks, monkeypatch, fast):
    if not fast:
        switches.use_entry(monkeypatch, fast=False)
    for name, text in ranks(2, refuse)[1]:
        assert WRONG[name][2] in text


def misfits(comm) -> list[str]:
    """A message that does not go into `out` stays, before those that were sent after it."""
    if comm.rank == 0:
        comm.send(np.arange(5.0), 1, 3)
        comm.send(np.arange(200_000.0), 1, 4)
        return []
    texts = []
    for out, kind, later in ((np.zeros(4), ValueError, False), (np.zeros(5, np.int64), TypeError, True)):
        with pytest.raises(kind) as told:
            if later:
                comm.recv(out, async_op=True).wait(20)
            else:
                comm.recv(out)
        assert not out.any()
        texts.append(str(told.value))
    assert comm.recv(np.zeros(5))[0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="has 200000 x float64"):
        comm.recv(np.zeros(100))
    assert comm.recv()[0].size == 200_000
    return texts


def test_a_message_that_does_not_fit_stays(ranks):
    longer, other = ranks(2, misfits)[1]
    sent = "on rank 1: the next message, from rank 0 with tag 3, has 5 x float64, out has room for "
    assert longer.startswith(f"recv(source=ANY, tag=ANY) {sent}4 x float64. It stays")
    assert f"{sent}5 x int64" in other


# --- peers ------------------------------------------------------------------------------------------------------------

WAITS: dict[str, Callable[[Any], Any]] = {
    "recv": lambda comm: comm.recv(source=1),
    "recv of anybody": lambda comm: comm.recv(),
    "posted": lambda comm: comm.recv(source=1, async_op=True).wait(20),
    "object": lambda comm: comm.recv_object(source=1),
    "posted object": lambda comm: comm.recv_object(source=1, async_op=True).wait(20),
    "posted for anybody": lambda comm: comm.recv(async_op=True).wait(20),
}


def survive(comm, board, wait: str, end: str) -> list[str]:
    if comm.rank == 1:
        comm.send(np.array([5]), 0)
        until(lambda: board[0])
        if end == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return []
    if comm.rank == 2:
        if end == "return" and wait.endswith("anybody"):
            return []
        until(lambda: board[1])
        return []
    assert comm.recv(source=1)[0].item() == 5
    board[0] = 1
    texts = []
    for call in (WAITS[wait], lambda c: c.send(X, 1)):
        with pytest.raises(RankFailed) as told:
            call(comm)
        texts.append(str(told.value))
    board[1] = 1
    return texts


@pytest.mark.parametrize("tell", [True, False], ids=["with launcher", "alone"])
@pytest.mark.parametrize("end", ["kill", "return"])
@pytest.mark.parametrize("wait", WAITS)
def test_who_waits_for_a_rank_that_has_gone_is_told(ranks, board, wait, end, tell):
    """In vain, that is: for anybody one may wait as long as anybody is there."""
    outcomes = ranks.outcomes(3, survive, board, wait, end, tell=tell, timeout=15.0)
    assert outcomes[0].error is None, outcomes[0].traceback
    first, again = outcomes[0].value
    call = "recv_object" if wait.endswith("object") else "recv"
    assert first.startswith(f"{call}(source={'ANY' if wait.endswith('anybody') else 1}, tag=ANY) on rank 0: rank ")
    if end == "kill":
        assert "rank 1 was killed" in first or "rank 1 left the job" in first
    assert again == first


def half_sent(comm, board) -> str:
    """Rank 1 dies while its message is on the way."""
    if comm.rank == 1:
        comm.send(np.ones(1), 0)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        board[0] = 1
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while True:
            comm.send(np.ones(4_000_000), 0)
    comm.recv()
    with pytest.raises(RankFailed) as told:
        while True:
            assert (comm.recv()[0] == 1).all()
    return str(told.value)


def test_a_rank_that_dies_while_it_sends(ranks, board):
    outcomes = ranks.outcomes(2, half_sent, board, tell=True)
    assert outcomes[1].status == -9
    assert "rank 1 " in outcomes[0].value


def nobody_sends(comm, wait: str) -> tuple[float, str, str]:
    comm.timeout = 0.4
    comm.send(np.ones(1), 0, 3) if comm.rank == 1 else None
    begin = time.monotonic()
    told = again = ""
    if comm.rank == 0:
        with pytest.raises(CollectiveTimeout) as error:
            if wait == "posted":
                comm.recv(tag=5, async_op=True).wait(20)
            else:
                comm.recv(source=1 if wait == "one" else shmcoll.ANY, tag=5)
        told = str(error.value)
        with pytest.raises(CollectiveTimeout) as error:
            comm.recv()
        again = str(error.value)
    else:
        until_ended(comm)
    return time.monotonic() - begin, told, again


@pytest.mark.timing
@pytest.mark.parametrize("wait", ["one", "any", "posted"])
def test_a_receive_without_a_message_says_for_which_one_it_waits(ranks, wait):
    seconds, told, again = ranks(3, nobody_sends, wait)[0]
    assert 0.4 <= seconds < 10
    call = f"recv(source={1 if wait == 'one' else 'ANY'}, tag=5) on rank 0"
    assert told.startswith(call)
    who = "rank 1 has" if wait == "one" else "ranks 1, 2 have"
    assert f"timed out after 0.4 s; {who} sent nothing with tag 5" in told
    assert "(waiting to be received: from rank 1: 1 with tag 3)" in told
    assert again == told


def interrupted(comm, board) -> tuple[str, str]:
    with pytest.raises((KeyboardInterrupt, RankFailed)) as told:
        comm.recv()
    with pytest.raises(RankFailed) as again:
        comm.barrier()
    return type(told.value).__name__, str(again.value)


def test_ctrl_c_ends_a_receive_and_the_group(ranks, board):
    job = ranks.start(2, interrupted, board)
    job.until(lambda: job.parked(1), "rank 1 waits")
    os.kill(job.pids[1], signal.SIGINT)
    (_, first), (kind, text) = [o.value for o in job.finish()]
    assert kind == "KeyboardInterrupt"
    assert "rank 1 was interrupted in recv(source=ANY, tag=ANY)" in text
    assert "rank 1 was interrupted in recv(source=ANY, tag=ANY)" in first
