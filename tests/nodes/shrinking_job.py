"""What each rank of a job runs that goes on without those that die. Arguments: what happens, folder. A rank that is
left writes `rankN.json`, N its number at first: its new number, and what it has found there."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import shmcoll

#: which ranks die, at once and while the others shrink
CASES = {"member": ([3], []), "leader": ([0], []), "node": ([2, 3], []), "two": ([1], [2])}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def survive(comm: Any, lost: list[int], late: list[int]) -> Any:
    """Go on until a call of all that are left succeeds."""
    number = comm.rank
    if number in lost:
        die()
    while True:
        try:
            comm.all_reduce(np.ones(4))
            if comm.size == 4 - len(lost) - len(late):
                return comm
            time.sleep(0.01)
        except shmcoll.ShmcollError:
            if number in late:
                time.sleep(0.05)
                die()
            comm = again(comm)


def again(comm: Any) -> Any:
    while True:
        try:
            return comm.shrink()
        except shmcoll.RankFailed as error:
            assert "call shrink again" in str(error), error


def alone(comm: Any) -> dict[str, Any]:
    """A rank dies, and another one does not call shrink."""
    comm.timeout = 2.0
    if comm.rank == 3:
        die()
    if comm.rank == 1:
        time.sleep(6)
        return {"kind": ""}
    try:
        comm.all_reduce(np.ones(4))
    except shmcoll.RankFailed:
        try:
            comm.shrink()
        except shmcoll.CollectiveTimeout as error:
            return {"kind": type(error).__name__, "text": str(error)}
    return {"kind": "no error"}


def main() -> None:
    case, folder = sys.argv[1:]
    comm = shmcoll.init()
    number = comm.rank
    comm.all_reduce(np.ones(4))
    if case == "refused":
        try:
            comm.shrink()
        except (NotImplementedError, ValueError) as error:
            told: dict[str, Any] = {"kind": type(error).__name__, "text": str(error)}
        comm.barrier()
    elif case == "alone":
        told = alone(comm)
    else:
        made = survive(comm, *CASES[case])
        told = {"rank": made.rank, "nodes": made.nodes, "numbers": made.all_gather(np.array([number])).tolist()}
        told["sum"] = made.all_reduce(np.arange(100_000.0)).sum()
        half = made.split(made.rank % 2)
        told["half"] = half.all_reduce(np.ones(1)).tolist()
    (Path(folder) / f"rank{number}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
