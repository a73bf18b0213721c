"""A control message to a rank that does not take it keeps nobody waiting."""

import threading
from types import SimpleNamespace

import pytest

from shmcoll.nodes import wire as wires
from shmcoll.nodes.wire import Wire, awaited


class Comm:
    """An MPI communicator of three ranks, whose sends to the last one do not return until `connects` is set."""

    def __init__(self):
        self.told, self.connects = [], threading.Event()

    def Get_rank(self):
        return 0

    def Get_size(self):
        return 3

    def Set_errhandler(self, handler):
        pass

    def Get_attr(self, name):
        return 1 << 20

    def Irecv(self, buffer, peer, tag):
        return SimpleNamespace(Test=lambda status: False)

    def Isend(self, buffer, peer, tag):
        if peer == 2:
            self.connects.wait()
        self.told.append(peer)
        return SimpleNamespace(Test=lambda: True)


@pytest.fixture
def wire(monkeypatch):
    monkeypatch.setattr(wires, "TELLING", 0.05)
    mpi = SimpleNamespace(
        Request=SimpleNamespace(Testall=None), ERRORS_RETURN=0, TAG_UB=0, BYTE=0, ANY_SOURCE=-1, Status=object,
        Exception=RuntimeError, Is_finalized=lambda: False,
    )  # fmt: skip
    made = Wire(mpi, Comm())
    yield made
    made.comm.connects.set()


def test_a_send_that_does_not_return_ends_the_use_of_mpi(wire):
    noted = []
    wire.when_stuck = lambda: noted.append(wire.is_stuck)
    wire.tell([1, 2], {"text": "why"})
    assert (wire.comm.told, noted) == ([1], [True])
    wire.comm.Irecv = wire.comm.Isend = None  # from now on nothing is called
    assert wire.heard() is None
    wire.tell([1], {"text": "again"})


def test_the_dead_are_not_told(wire):
    wire.dead.add(2)
    wire.tell([1, 2], {"text": "why"})
    assert (wire.comm.told, wire.is_stuck, wire.has_sent()) == ([1], False, True)


@pytest.mark.parametrize(
    ("waits", "expected"),
    [([], []), ([(False, 1), (False, 0)], [0, 1]), ([(True, 2), (False, 1), (True, 2)], [2])],
)
def test_whom_requests_wait_for(waits, expected):
    assert awaited(waits) == expected
