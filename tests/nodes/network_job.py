"""What each rank of a job over a network runs that will fail: calls of all kinds, for as long as they return.

Arguments: case, folder, seed, limit of a wait in seconds. Each rank makes `atN` when it begins, and writes `rankN.json`
when a call has failed: the error, and for how many seconds that call has lasted. Then the error ends it.
"""

import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import shmcoll
from tests.support.waiting import until


def swapped(comm: Any) -> None:
    """A long message to a rank of another node, and one from there."""
    other = (comm.rank + comm.size // 2) % comm.size
    found, *_ = comm.sendrecv(np.full(200_000, comm.rank), other, source=other)
    assert (found == other).all()


def later(comm: Any) -> None:
    works = [comm.all_reduce(np.full(100_000, 1.0), async_op=True) for _ in range(2)]
    assert all((work.wait() == comm.size).all() for work in works)


def half_a_message(comm: Any, folder: Path) -> None:
    """The head of a message comes before the link goes down, and not all of its bytes."""
    until((folder / "slow").exists, pause=0.01)
    if comm.rank == comm.size - 1:
        comm.send(np.ones(1 << 21), 0, 1)
        (folder / "sent").touch()
    until((folder / "cut").exists, pause=0.01)
    if comm.rank == 0:
        comm.recv(source=comm.size - 1, tag=1)
    comm.barrier()


def half_a_broadcast(comm: Any, folder: Path) -> None:
    """The root waits for its sends alone, and the others for what it sends, when the link goes down."""
    until((folder / "slow").exists, pause=0.01)
    (folder / "sent").touch()
    comm.broadcast(np.ones(1 << 21), comm.size - 1)


CALLS: dict[str, Callable[[Any], object]] = {
    "barrier": lambda comm: comm.barrier(),
    "short": lambda comm: comm.all_reduce(np.ones(4)),
    "long": lambda comm: comm.all_reduce(np.ones(1 << 19)),
    "all_to_all": lambda comm: comm.all_to_all(np.ones((comm.size, 30_000))),
    "broadcast": lambda comm: comm.broadcast(np.ones(300_000), 1),
    "object": lambda comm: comm.all_gather_object("x" * 1000 * comm.rank),
    "swapped": swapped,
    "later": later,
}


def some_calls(draw: random.Random) -> Iterator[tuple[str, Callable[[Any], object]]]:
    while True:
        yield (name := draw.choice(list(CALLS))), CALLS[name]


def main() -> None:
    case, folder, seed, limit = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    comm = shmcoll.init()
    # Without the others, leaders alone have sent to each other
    for call in CALLS.values() if case != "short" else [CALLS[case]]:
        call(comm)
    comm.timeout = limit
    (folder / f"at{comm.rank}").touch()
    calls: Iterable[tuple[str, Callable[[Any], object]]] = some_calls(random.Random(seed))
    if case == "short":
        calls = itertools.repeat((case, CALLS[case]))
    halves = {"half_a_message": half_a_message, "half_a_broadcast": half_a_broadcast}
    if case in halves:
        calls = [(case, lambda comm: halves[case](comm, folder))]
    for name, call in calls:
        begun = time.monotonic()
        try:
            call(comm)
        except BaseException as error:
            told = {
                "kind": type(error).__name__,
                "text": str(error),
                "call": name,
                "rank": getattr(error, "rank", None),
                "missing": getattr(error, "missing", None),
                "seconds": time.monotonic() - begun,
            }
            (folder / f"rank{comm.rank}.part").write_text(json.dumps(told))
            (folder / f"rank{comm.rank}.part").rename(folder / f"rank{comm.rank}.json")
            raise


if __name__ == "__main__":
    main()
