"""`Work.test` in a loop that does nothing else: the call of every kind comes to its end.

The interpreter hardly ever takes the GIL from the loop, so other threads run only if `test` lets them.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll import Recv, RecvObject, Send, SendObject

ONE = np.ones(2)
LONG = np.ones(1 << 18)
BLOCK = np.ones((3, 3))
MOST = 1_000_000  # tests; each takes a microsecond and more

Call = Callable[[Any, int], Any]  # of a communicator and the number of the other rank


def posted(comm: Any, other: int) -> Any:
    return comm.recv(source=other, async_op=True)


#: what rank 0 begins, and what rank 1 calls
KINDS: dict[str, tuple[Call, Call]] = {
    "barrier": (lambda comm, _: comm.barrier(async_op=True), lambda comm, _: comm.barrier()),
    "all_reduce": (lambda comm, _: comm.all_reduce(LONG, async_op=True), lambda comm, _: comm.all_reduce(LONG)),
    "all_gather_v": (lambda comm, _: comm.all_gather_v(ONE, async_op=True), lambda comm, _: comm.all_gather_v(ONE)),
    "objects": (lambda comm, _: comm.all_gather_object(1, async_op=True), lambda comm, _: comm.all_gather_object(2)),
    "exchange": (
        lambda comm, _: comm.grid(2).exchange(BLOCK, async_op=True),
        lambda comm, _: comm.grid(2).exchange(BLOCK),
    ),
    "plan": (lambda comm, _: comm.plan("all_reduce", ONE).start(), lambda comm, _: comm.all_reduce(ONE)),
    "planned send": (
        lambda comm, other: comm.plan("send", LONG, other).start(),
        lambda comm, other: comm.recv(source=other),
    ),
    "planned receive": (
        lambda comm, other: comm.plan("recv", LONG.copy(), other).start(),
        lambda comm, other: comm.send(LONG, other),
    ),
    "send": (lambda comm, other: comm.send(LONG, other, async_op=True), lambda comm, other: comm.recv(source=other)),
    "short send": (
        lambda comm, other: comm.send(ONE, other, async_op=True),
        lambda comm, other: comm.recv(source=other),
    ),
    "synchronous send": (
        lambda comm, other: comm.send(ONE, other, synchronous=True, async_op=True),
        lambda comm, other: comm.recv(source=other),
    ),
    "long synchronous send": (
        lambda comm, other: comm.send(LONG, other, synchronous=True, async_op=True),
        lambda comm, other: comm.recv(source=other),
    ),
    "object": (
        lambda comm, other: comm.send_object("x", other, async_op=True),
        lambda comm, other: comm.recv_object(other),
    ),
    "synchronous object": (
        lambda comm, other: comm.send_object("x", other, synchronous=True, async_op=True),
        lambda comm, other: comm.recv_object(other),
    ),
    "receive": (posted, lambda comm, other: comm.send(ONE, other)),
    "long receive": (posted, lambda comm, other: comm.send(LONG, other)),
    "receive of an object": (
        lambda comm, other: comm.recv_object(other, async_op=True),
        lambda comm, other: comm.send_object(["x"] * 100_000, other),
    ),
    "sendrecv": (
        lambda comm, other: comm.sendrecv(LONG, other, async_op=True),
        lambda comm, other: comm.sendrecv(LONG, other),
    ),
    "sendrecv_object": (
        lambda comm, other: comm.sendrecv_object("x", other, async_op=True),
        lambda comm, other: comm.sendrecv_object("y", other),
    ),
    "batch": (
        lambda comm, other: comm.batch(
            [Recv(source=other), Send(LONG, other), SendObject("x", other), RecvObject(other)]
        ),
        lambda comm, other: [
            work.wait()
            for work in comm.batch([Send(LONG, other), Recv(source=other), SendObject("y", other), RecvObject(other)])
        ],
    ),
    "neighbours": (
        lambda comm, _: comm.ring.all_gather(LONG, async_op=True),
        lambda comm, _: comm.ring.all_gather(LONG),
    ),
}


class WithGraph:
    """A communicator, and its graph as `ring`."""

    def __init__(self, comm: Any):
        self._comm, self.ring = comm, comm.graph([1 - comm.rank])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._comm, name)


def in_a_loop(comm) -> list[str]:
    """Begin each call on rank 0 while rank 1 waits, and again where rank 1 comes first."""
    both, control, late = WithGraph(comm), comm.dup(), []
    interval = sys.getswitchinterval()
    for name, (begin, meet) in KINDS.items():
        for comes_first in (False, True):
            if comm.rank:
                if not comes_first:
                    control.recv(source=0)
                meet(both, 0)
                control.barrier()
                continue
            sys.setswitchinterval(1000)
            try:
                begun = begin(both, 1)
                if not comes_first:
                    control.send(ONE, 1)
                for work in begun if isinstance(begun, list) else [begun]:
                    if not any(work.test() for _ in range(MOST)):
                        late.append(f"{name}, {comes_first}")
                    sys.setswitchinterval(interval)
                    work.wait()
                    sys.setswitchinterval(1000)
            finally:
                sys.setswitchinterval(interval)
            control.barrier()
    return late


def test_a_loop_of_tests_comes_to_its_end(ranks):
    assert ranks(2, in_a_loop) == [[], []]
