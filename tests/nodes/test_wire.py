"""A control message to a rank that does not take it keeps nobody waiting."""

import contextlib
import json
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from shmcoll.nodes.mpi import waiting
from shmcoll.nodes.mpi import wire as wires
from shmcoll.nodes.mpi.wire import Wire, awaited
from tests.support import sparks


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
    monkeypatch.setattr(waiting, "TELLING", 0.05)
    mpi = SimpleNamespace(
        Request=SimpleNamespace(Testall=None), ERRORS_RETURN=0, TAG_UB=0, BYTE=0, ANY_SOURCE=-1, Status=object,
        Exception=RuntimeError, REQUEST_NULL=None, Is_finalized=lambda: False,
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


class Posted:
    """A receive of the control channel that is complete. MPI makes it REQUEST_NULL then, and tests that with an empty
    status."""

    is_null = False

    def __eq__(self, other):
        return other is None and self.is_null

    __hash__ = None

    def Test(self, status):
        status.count = 0 if self.is_null else status.sent
        self.is_null = True
        return True


class Stop(Exception):
    """Raised by a signal handler."""


def test_a_message_whose_receiver_is_interrupted_is_not_read_twice_or_as_nothing(wire):
    data = json.dumps({"text": "why"}).encode()
    wire._control[: len(data)] = np.frombuffer(data, np.uint8)

    def stop() -> None:
        raise Stop

    found = []
    for step in range(1, 1000):
        wire._posted = Posted()
        wire._status = SimpleNamespace(sent=len(data))
        wire._status.Get_count = lambda _: wire._status.count
        with contextlib.suppress(Stop):
            if not sparks.run(wire.heard, step, (Path(wires.__file__),), stop):
                break
        found.append(wire.heard())
    assert found[0] == {"text": "why"}
    assert all(one in ({"text": "why"}, None) for one in found)


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
