"""One rank of `shmbench compare --door mpi`: the calls of mpi4py, on whichever MPI the environment brings.

Its arguments are JSON, and the address of the command that gives it its turns.
"""

import json
import sys
from dataclasses import asdict
from typing import Any

import numpy as np
from mpi import MPI, Mpi
from shmbench.cli.sizes import short_size
from shmbench.commands.door import measure
from shmbench.doors.mpi import apart
from shmbench.timing.ab_timing import Contest, Settings
from shmbench.timing.turns import Turns

OPS = {"sum": MPI.SUM, "max": MPI.MAX}


class Ranks:
    """What a contest needs of a communicator, made of MPI."""

    def __init__(self) -> None:
        self.barrier = MPI.COMM_WORLD.Barrier

    def all_reduce(self, array: np.ndarray, op: str = "sum") -> np.ndarray:
        out = np.empty_like(array)
        MPI.COMM_WORLD.Allreduce(array, out, OPS[op])
        return out


def main(asked: dict[str, Any], address: str) -> None:
    turns, library = Turns(address), Mpi()
    contest = Contest(Ranks(), Settings(asked["rounds"], asked["quick"], asked["least"]), turns.pause)
    native = None
    if "shmcoll.mpi" in sys.modules:
        import shmcoll

        native = shmcoll.init()
    turns.pause()
    version = " ".join(MPI.Get_library_version().splitlines()[0].strip("\0").split())
    turns.found = version if library.rank == 0 else None
    for call in apart(library.comm, native, library.collective, asked["quick"]):
        if asked["call"] in f"{call.name}, {short_size(call.bytes)}":
            line = asdict(measure(contest, call))
            turns.found = line if library.rank == 0 else None
    turns.pause()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
