"""Calls of front ends are in the timeline by the names that their users know."""

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
import shmcoll.nki, shmcoll.mindspore as ms
from shmcoll.nki import collectives
from shmcoll.nki.collectives import ReplicaGroup
from shmcoll.mindspore.communication.comm_func import all_reduce
import shmcoll
from shmcoll.profiling.reading import profiles

ms.communication.init()
x, y = np.ones((1, 4), np.float32), np.empty((1, 4), np.float32)
all_reduce(ms.Tensor(x))
ms.ops.AllReduce()(ms.Tensor(x))
collectives.all_reduce([x], [y], ReplicaGroup([[0]]), np.add)
(one,) = profiles(shmcoll.init()._local_rank.arena)
for span in one.spans:
    if span.kind == "front end":
        inner = [s.name for s in one.spans if s.kind == "call" and span.begin <= s.begin and s.end <= span.end]
        print(span.name, *inner)
"""

NAMES = {
    "mindspore.communication.comm_func.all_reduce all_reduce",
    "mindspore.ops.AllReduce all_reduce",
    "nki.collectives.all_reduce all_reduce",
}


def output(**environment: str) -> set[str]:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


def test_names_of_their_users() -> None:
    assert output(SHMCOLL_TRACE="unused.json", SHMCOLL_STATS="") >= NAMES
