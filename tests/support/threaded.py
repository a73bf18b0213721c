"""Ways to wait for a message, and what another thread of the rank does meanwhile: on one machine and over nodes."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.patience import PATIENCE

X = np.arange(5.0)
LONG = np.arange(40_000.0)  # offered, or in parts


def take_all(comm: Any) -> None:
    """Receive whatever has come."""
    while (found := comm.iprobe()) is not None:
        (comm.recv_object if found.dtype is None else comm.recv)(source=found.source, tag=found.tag)


def send_synchronously(comm: Any, other: int) -> None:
    taken = comm.recv(source=other, tag=2, async_op=True)
    comm.send(X, other, 2, synchronous=True)
    taken.wait()


#: ways to wait for an array with tag 7
WAITS: dict[str, Callable[[Any, int], np.ndarray]] = {
    "recv": lambda comm, source: comm.recv(source=source, tag=7)[0],
    "recv into out": lambda comm, source: comm.recv(np.empty(5), source, 7)[0],
    "recv from any": lambda comm, source: comm.recv(tag=7)[0],
    "recv_object": lambda comm, source: np.array(comm.recv_object(source, 7)[0]),
    "probe": lambda comm, source: (comm.probe(source, 7), comm.recv(source=source, tag=7)[0])[1],
    "mprobe": lambda comm, source: comm.mprobe(source, 7).recv(),
    "mprobe from any": lambda comm, source: comm.mprobe(tag=7).recv(),
    "sendrecv": lambda comm, source: comm.sendrecv(X, source, None, source, 8, 7)[0],
}

#: calls of another thread; both ranks make them
CALLS: dict[str, Callable[[Any, int], Any]] = {
    "send": lambda comm, other: comm.send(X, other, 1),
    "long send": lambda comm, other: comm.send(LONG, other, 1),
    "send_object": lambda comm, other: comm.send_object({"a": 1}, other, 1),
    "synchronous send": send_synchronously,
    "asynchronous send": lambda comm, other: comm.send(X, other, 1, async_op=True).wait(),
    "sendrecv": lambda comm, other: comm.sendrecv(LONG, other, None, other, 1, 1),
    "all_reduce": lambda comm, other: comm.all_reduce(X),
    "barrier": lambda comm, other: comm.barrier(),
}


def in_thread(call: Callable[[], Any]) -> Callable[[], Any]:
    """Start a call in a thread; return what waits for its result."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()

    def result() -> Any:
        thread.join(PATIENCE)
        return results[0]

    return result
