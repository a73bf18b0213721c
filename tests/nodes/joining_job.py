"""What each rank of a job runs that cannot join. Arguments: what is wrong, folder. Each rank writes its error."""

import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpi4py

from tests.support.waiting import comes_true

CULPRIT = 3


def single_thread() -> Any:
    mpi4py.rc.thread_level = "single"
    return joined()


def version() -> Any:
    import shmcoll

    if number() == CULPRIT:
        shmcoll.__version__ = "0.0.1"
    return joined()


def no_room() -> Any:
    from shmcoll.errors import ArenaError
    from shmcoll.startup import rendezvous

    def meet(*_: Any, **__: Any) -> Any:
        raise ArenaError("there is no room in /dev/shm")

    if number() >= 2:
        rendezvous.meet = meet  # type: ignore[assignment]
    return joined()


def full() -> Any:
    """The second node of a network has a /dev/shm with no room left."""
    from mpi4py import MPI  # which takes its part of it

    import shmcoll

    if socket.gethostname() == "b" and MPI.COMM_WORLD.Get_rank() == 2:
        with open("/dev/shm/all", "wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 20))
    MPI.COMM_WORLD.Barrier()
    return shmcoll.init()


def absent() -> Any:
    """One rank comes when the others have waited for as long as they may, and have said so."""
    from mpi4py import MPI

    import shmcoll

    MPI.COMM_WORLD.Barrier()
    if number() == CULPRIT:
        others = [Path(sys.argv[2], f"rank{rank}.json") for rank in range(CULPRIT)]
        assert comes_true(lambda: all(path.exists() for path in others))
    return shmcoll.init()


def between_two() -> Any:
    from mpi4py import MPI

    import shmcoll

    half = MPI.COMM_WORLD.Split(number() // 2)
    both = half.Create_intercomm(0, MPI.COMM_WORLD, 2 - number() // 2 * 2)
    try:
        return shmcoll.from_mpi(both)
    finally:
        both.Free()
        half.Free()


def twice() -> Any:
    from mpi4py import MPI

    import shmcoll

    comm = shmcoll.from_mpi(MPI.COMM_WORLD)
    assert shmcoll.init() is comm
    return shmcoll.from_mpi(MPI.COMM_WORLD)


def finalised() -> Any:
    from mpi4py import MPI

    comm = joined()
    comm.barrier()
    MPI.Finalize()
    return comm.barrier()


def joined() -> Any:
    import shmcoll

    return shmcoll.init()


def number() -> int:
    return int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])


CASES: dict[str, Callable[[], Any]] = {
    one.__name__: one for one in (single_thread, version, no_room, full, absent, between_two, twice, finalised)
}


def main() -> None:
    case, folder = sys.argv[1:]
    try:
        CASES[case]()
        told = ["", ""]
    except Exception as error:
        told = [type(error).__name__, str(error)]
    (Path(folder) / f"rank{number()}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
