"""What belongs to the process that made it cannot be pickled, and the text says what to do instead."""

import copy
import pickle
from typing import Any

import numpy as np

ADVICE = {
    "a communicator": "call shmcoll.init() in the function that uses it",
    "the plan of a communicator": "call comm.plan in the function that uses it",
    "the grid of a communicator": "call comm.grid in the function that uses it",
    "the graph of a communicator": "call comm.graph in the function that uses it",
    "an asynchronous call of a communicator": "wait for it, and pass its result",
}
WAYS = (pickle.dumps, lambda one: pickle.dumps([{"in": one}]), copy.deepcopy)


def refused(comm: Any) -> list[list[str]]:
    """What each way of copying each object says."""
    x = np.ones(1)
    works = [
        comm.barrier(async_op=True),
        comm.recv(source=0, tag=1, async_op=True),
        comm.sendrecv(x, 0, sendtag=2, recvtag=2, async_op=True),
    ]
    plans = [comm.plan("all_reduce", x), comm.plan("send", x, 0)]
    told: list[list[str]] = []
    for one in (comm, *plans, comm.grid(1), comm.graph([0]), *works):
        told.append([])
        for way in WAYS:
            try:
                way(one)
            except TypeError as error:
                told[-1].append(str(error))
    comm.send(x, 0, 1)
    for work in works:
        work.wait(20)
    return told


def test_what_belongs_to_a_process_says_so(ranks: Any) -> None:
    communicator, plan, grid, graph, work = (
        f"{title} belongs to the process that made it; {advice}" for title, advice in ADVICE.items()
    )
    texts = [communicator, plan, plan, grid, graph, work, work, work]
    assert ranks(1, refused) == [[[text] * 3 for text in texts]]
