"""Calls of front ends are in the timeline by the names that their users know."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    assert output(SHMCOLL_TRACE=os.devnull, SHMCOLL_STATS="") >= NAMES


OF_MPI = """
import time
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
x, y = np.ones(4), np.empty(4)
for _ in range(5):  # the first one by Python, the others by native code
    comm.Allreduce(x, y)
comm.Barrier()
if comm.rank == 0:
    comm.Send(x, 1, 3)
else:
    comm.Recv(y, 0, 3)
comm.Iallreduce(x, y).Wait()
MPI.Request.Waitall([comm.Isend(x, 1 - comm.rank, 9), comm.Irecv(y, 1 - comm.rank, 9)])
"""

OF_JIT = """
import numba
import numpy as np
import shmcoll
import shmcoll.jit as jit

@numba.njit
def call(h, x, y, rank):
    for _ in range(5):
        jit.all_reduce(h, x, y)
    jit.barrier(h)
    if rank == 0:
        jit.send(h, x, 1, 3)
    else:
        jit.recv(h, y, 0, 3)

comm = shmcoll.init()
call(comm.handle, np.ones(4), np.empty(4), comm.rank)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "option", "wanted"),
    [
        (OF_MPI, "--mpi", {"all_reduce": 12, "barrier": 2, "send": 3, "recv": 3}),
        (OF_JIT, "--fresh", {"all_reduce": 10, "barrier": 2, "send": 1, "recv": 1}),
    ],
)
def test_calls_that_do_not_come_from_python_are_counted_once(
    tmp_path: Path, program: str, option: str, wanted: dict[str, int]
) -> None:
    script, stats = tmp_path / "job.py", tmp_path / "stats.json"
    script.write_text(program)
    command = [sys.executable, "-m", "shmrun", "-n", "2", option, f"--stats={stats}", str(script)]
    subprocess.run(command, check=True, capture_output=True)
    found = json.loads(stats.read_text())["operations"]
    assert {one["operation"]: one["calls"] for one in found if one["operation"] in wanted} == wanted
