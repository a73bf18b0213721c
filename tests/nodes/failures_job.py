"""What each rank of a job that fails runs. Arguments: what happens, folder. A rank that survives writes `rankN.json`:
the error it has raised, its attributes, and after how many seconds."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import shmcoll

CULPRIT = 3


def killed(comm: Any) -> None:
    if comm.rank == CULPRIT:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.all_reduce(np.ones(4))


def raises(comm: Any) -> None:
    if comm.rank == CULPRIT:
        raise KeyError("a bad sample")
    comm.all_reduce(np.ones(4))


def exits(comm: Any) -> None:
    """The end of a program that the other ranks do not expect, with no exception to report."""
    if comm.rank == CULPRIT:
        sys.exit(3)
    comm.all_reduce(np.ones(4))


def other_operation(comm: Any) -> None:
    comm.barrier() if comm.rank == CULPRIT else comm.all_reduce(np.ones(4))


def other_shape(comm: Any) -> None:
    comm.all_reduce(np.ones(5 if comm.rank == CULPRIT else 4))


def late(comm: Any) -> None:
    comm.timeout = 2.0
    if comm.rank == CULPRIT:
        time.sleep(4)
    comm.all_reduce(np.ones(4))


def aborts(comm: Any) -> None:
    if comm.rank == CULPRIT:
        comm.abort("no more data")
    comm.all_reduce(np.ones(4))


def in_message(comm: Any) -> None:
    if comm.rank == CULPRIT:
        comm.abort("no more messages")
    comm.recv(source=CULPRIT)


def interrupted(comm: Any) -> None:
    if comm.rank == CULPRIT:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
    elif comm.rank == 0:
        time.sleep(6)
    comm.barrier()


def bad_argument(comm: Any) -> None:
    """A mistake of one rank, which may call again."""
    if comm.rank == CULPRIT:
        with contextlib.suppress(ValueError):
            comm.all_reduce(np.ones(4), "mean")
    assert (comm.all_reduce(np.ones(4)) == comm.size).all()


CASES: dict[str, Callable[[Any], None]] = {
    one.__name__: one
    for one in (
        killed,
        raises,
        exits,
        other_operation,
        other_shape,
        late,
        aborts,
        in_message,
        interrupted,
        bad_argument,
    )
}


def main() -> None:
    case, folder = sys.argv[1:]
    comm = shmcoll.init()
    for _ in range(2):  # from now on native code makes such calls by itself
        comm.barrier()
        comm.all_reduce(np.ones(4))
    begun = time.monotonic()
    told: dict[str, Any] = {"kind": "", "text": ""}
    try:
        CASES[case](comm)
    except (KeyError, SystemExit):
        raise
    except BaseException as error:
        told = {"kind": type(error).__name__, "text": str(error)}
        for name in ("operation", "rank", "missing"):
            told[name] = getattr(error, name, None)
        if isinstance(error, shmcoll.ShmcollError):
            try:
                comm.barrier()
            except shmcoll.ShmcollError as again:
                told["again"] = type(again).__name__
    told["seconds"] = time.monotonic() - begun
    (Path(folder) / f"rank{comm.rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
