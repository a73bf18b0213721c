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


def groups(comm: Any) -> dict[str, Any]:
    """Rank 3 dies. Groups that it is in are shrunk by their own survivors, and a group without it goes on."""
    number, column = comm.rank, comm.split(comm.rank % 2)  # over both nodes
    twin = comm.dup()
    rest = comm.subgroup([0, 1, 2]) if number != 3 else None
    comm.barrier()
    if number == 3:
        die()
    told: dict[str, Any] = {}
    for name, group in {"column": column, "twin": twin}.items():
        try:
            while True:
                group.all_reduce(np.ones(4))
                time.sleep(0.01)
                if name == "column" and number % 2 == 0:
                    break  # nobody of it has died
        except shmcoll.RankFailed:
            group = group.shrink()
        told[name] = group.all_gather(np.array([number])).tolist()
    assert rest is not None
    told["rest"] = rest.split(number // 2).all_gather(np.array([number])).tolist()
    told["other"] = rest.split(int(number == 1)).all_gather(np.array([number])).tolist()
    column.close()
    try:
        column.shrink()
    except shmcoll.CallNotAllowed as error:
        told["closed"] = str(error)
    return told


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
    elif case in ("alone", "groups"):
        told = {"alone": alone, "groups": groups}[case](comm)
    else:
        made = survive(comm, *CASES[case])
        told = {"rank": made.rank, "nodes": made.nodes, "numbers": made.all_gather(np.array([number])).tolist()}
        told["sum"] = made.all_reduce(np.arange(100_000.0)).sum()
        half = made.split(made.rank % 2)
        told["half"] = half.all_reduce(np.ones(1)).tolist()
    (Path(folder) / f"rank{number}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
