"""probe, iprobe, mprobe, improbe: what the next message is, and taking it without knowing its shape."""

import threading

import numpy as np
import pytest

import shmcoll
from shmcoll.errors import CollectiveTimeout, RankFailed
from tests.support import switches
from tests.support.waiting import until

pytestmark = pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])


@pytest.fixture(autouse=True)
def _entry(monkeypatch, fast):
    if not fast:
        switches.use_entry(monkeypatch, fast=False)


def test_a_message_stays_and_is_received_after_it_was_probed(ranks):
    def look(comm) -> list:
        if comm.rank == 1:
            comm.send(np.arange(6, dtype=np.int16).reshape(2, 3), 0, 4)
            comm.send_object({"a": 1}, 0, 5)
            comm.send(np.zeros(0), 0, 6)
            comm.barrier()
            return []
        first = comm.probe()
        assert first == comm.probe(1, 4) == (1, 4, np.int16, (2, 3))
        assert comm.probe(tag=6)[:2] == (1, 6) and comm.iprobe(tag=7) is None
        comm.barrier()
        found = comm.iprobe(1, 5)
        assert found is not None and found.dtype is None and found.shape[0] > 0
        assert comm.recv_object(tag=5)[0] == {"a": 1}
        out = np.zeros(first.shape, first.dtype)
        assert comm.recv(out, first.source, first.tag)[0] is out and out.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert comm.recv(tag=6)[0].shape == (0,) and comm.iprobe() is None
        return [True]

    assert ranks(2, look)[0] == [True]


def test_a_taken_message_belongs_to_the_taker(ranks):
    def take(comm) -> list:
        big = np.arange(200_000.0)
        comm.send(big, comm.rank, 1)
        comm.send_object([big, "x"], comm.rank, 2)
        comm.send(np.ones(2), comm.rank, 1)
        message = comm.mprobe(comm.rank, 1)
        assert message.envelope[:2] == (comm.rank, 1) and "shmcoll.Message Envelope(source=" in repr(message)
        assert comm.recv(tag=1)[0].tolist() == [1, 1], "the second one: the first is taken"
        an_object = comm.improbe(tag=2)
        assert comm.improbe() is None
        for out, kind, text in (
            (np.zeros(3), ValueError, "the message has 200000 elements, out has room for 3"),
            (np.zeros(200_000, int), TypeError, "the message has dtype float64, out has int64"),
            ([1], TypeError, "out must be an array, got list"),
        ):
            with pytest.raises(kind, match=text):
                message.recv(out)
        out = np.zeros(200_001)
        assert (message.recv(out) == big).all() and out[-1] == 0
        with pytest.raises(ValueError, match="has been received already"):
            message.recv()
        with pytest.raises(TypeError, match="the message is an object"):
            an_object.recv(out)
        array, text = an_object.recv()
        return [(array == big).all(), text]

    assert ranks(1, take) == [[True, "x"]]


def test_posted_receives_come_first(ranks):
    """A message that fits a posted receive is not seen, also while another thread waits for that receive."""

    def look(comm) -> list:
        posted = [comm.recv(source=comm.rank, tag=1, async_op=True) for _ in range(2)]
        comm.send(np.full(1, 7), comm.rank, 1)
        told = [comm.iprobe(tag=1), posted[0].done()]
        comm.send(np.full(2, 8), comm.rank, 2)
        told.append(comm.probe().shape)
        waiting = threading.Thread(target=posted[1].wait)
        waiting.start()
        message = comm.mprobe(tag=2)
        timer = threading.Timer(0.02, comm.send, (np.full(3, 9), comm.rank, 3))
        timer.start()
        told.append(comm.probe(tag=3).shape)
        assert comm.recv(tag=3)[0].tolist() == [9, 9, 9]
        comm.send(np.full(1, 6), comm.rank, 1)
        waiting.join()
        timer.join()
        return [*told, posted[1].wait()[0].tolist(), message.recv().tolist()]

    assert ranks(1, look) == [[None, True, (2,), (3,), [6], [8, 8]]]


def test_threads_share_the_messages(ranks):
    """Each message is taken once, whichever thread probes."""

    def share(comm) -> list[int]:
        number = 60
        if comm.rank:
            for i in range(number):
                comm.send(np.full(i % 5 + 1, i), 0, i % 3)
            return []
        taken: list[int] = []

        def take() -> None:
            while len(taken) < number:
                if message := comm.improbe():
                    taken.append(int(message.recv()[-1]))

        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(taken)

    assert ranks(2, share)[0] == list(range(60))


@pytest.mark.parametrize("name", ["probe", "mprobe"])
@pytest.mark.parametrize("posted", [False, True], ids=["alone", "beside a receive"])
def test_nothing_comes(ranks, board, name, posted):
    def wait(comm) -> str:
        if comm.rank:
            until(lambda: board[0])
            return ""
        if posted:
            comm.recv(source=1, tag=8, async_op=True)
        comm.timeout = 0.2
        with pytest.raises(CollectiveTimeout) as told:
            getattr(comm, name)(1, 9)
        with pytest.raises(CollectiveTimeout):
            comm.barrier()
        board[0] = 1
        return str(told.value)

    outcome = ranks.outcomes(2, wait)[0]
    assert outcome.error is None, outcome.traceback
    assert outcome.value.startswith(f"{name}(source=1, tag=9) on rank 0 at "), outcome.value
    assert ": timed out after 0.2 s; rank 1 has sent nothing with tag 9." in outcome.value


@pytest.mark.parametrize("posted", [False, True], ids=["alone", "beside a receive"])
def test_the_peer_dies(ranks, board, posted):
    def wait(comm) -> str:
        if comm.rank == 1:
            until(lambda: board[0])
            raise SystemExit(3)
        if posted:
            comm.recv(source=1, tag=8, async_op=True)
        board[0] = 1
        with pytest.raises(RankFailed) as told:
            comm.probe(1, 9)
        return str(told.value)

    outcome = ranks.outcomes(2, wait, timeout=10.0)[0]
    assert outcome.error is None, outcome.traceback
    assert "rank 1" in outcome.value


def test_wrong_arguments(ranks):
    def call(comm) -> list[str]:
        told = []
        for name, arguments, kind in (
            ("probe", (5,), ValueError), ("iprobe", (0, -3), ValueError), ("mprobe", ("a",), TypeError),
            ("improbe", (0, 1.5), TypeError), ("probe", (0, 99), ValueError),
        ):  # fmt: skip
            with pytest.raises(kind) as error:
                getattr(comm, name)(*arguments)
            told.append(str(error.value))
        assert comm.send(np.ones(1), 0) is None and comm.iprobe() is not None
        return told

    (told,) = ranks(1, call)
    assert told[0].startswith("probe on rank 0: source 5 is not a rank of this group of 1")
    assert told[1].startswith("iprobe on rank 0: tag -3 is out of range")
    assert told[2].startswith("mprobe on rank 0: source must be an int")
    assert told[4].startswith("probe(source=0, tag=99) on rank 0: no message that this rank has sent to itself fits")


def test_a_group_of_its_own(ranks):
    """`dup`, and groups that a `with` block closes."""

    def use(comm) -> list:
        with comm.dup() as own, comm.split(comm.rank % 2) as half:
            own.send(np.full(1, 5), comm.rank, 1)
            told = [own.ranks == comm.ranks, comm.iprobe(), own.iprobe() is not None, half.size]
            own.recv()
        with pytest.raises(shmcoll.CallNotAllowed, match="closed"):
            own.barrier()
        with pytest.raises(shmcoll.CallNotAllowed, match="closed"), half:
            pass
        try:
            with comm.dup() as own:
                raise KeyError
        except KeyError:
            told.append(own._is_closed)
        return told

    assert ranks(4, use) == [[True, None, True, 2, True]] * 4


def test_dup_beside_split_is_told(ranks):
    def call(comm) -> str:
        with pytest.raises(shmcoll.CollectiveMismatch) as told:
            comm.dup() if comm.rank else comm.split(0)
        return str(told.value)

    text = ranks(2, call)[0]
    assert "rank 0 called split" in text and "rank 1 called dup" in text
