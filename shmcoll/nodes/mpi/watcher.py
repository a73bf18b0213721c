"""Starting the watcher of a node (`watcher_process.py`), and connecting to it, under mpiexec.

MPICH's mpiexec leaves no rank the time to report a death. Open MPI's leaves the other ranks of the node a quarter of a
second, so there the watcher speaks only if none of them has found it.
"""

import fcntl
import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.system import interpreter
from shmcoll.engine.system.descriptors import file_of
from shmcoll.engine.system.handlers import ignored
from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import ShmcollError

#: variables that the launchers set for each rank: MPICH's mpiexec and those made from it, and Open MPI's
_HYDRA, _PRRTE = "MPI_LOCALRANKID", "OMPI_COMM_WORLD_RANK"
_PROGRAM = Path(__file__).with_name("watcher_process.py")
_PATIENCE = 2.0  # seconds
_HIGH = 512  # the number of the connection's descriptor, or above: the kernel closes high numbers first


def is_needed() -> bool:
    """Return whether the nodes of this job have watchers: the same on all ranks."""
    return _HYDRA in os.environ or _PRRTE in os.environ


def start(arena: Arena) -> None:
    """Start the watcher of the node whose arena this is. Its lowest rank calls it, when all have joined. The job goes
    on without it if it cannot be started."""
    if not arena.has_descriptor():
        return
    ranks = [records.read(arena, rank, layout.BY_RANK) for rank in range(arena.ranks)]
    given = {
        "arena": arena.fd,
        "address": _address(arena),
        "ranks": [[one.rank, one.pid, one.start, _state(arena, one.rank)] for one in ranks],
        "joined": records.JOINED,
        "survivors_speak": _HYDRA not in os.environ,
        "path": [folder for folder in sys.path if folder],
    }
    with ignored(OSError, subprocess.SubprocessError, ShmcollError):
        subprocess.run(
            [interpreter.python(), *interpreter.flags(), "-I", "-S", str(_PROGRAM)],
            input=to_bytes(json.dumps(given)),
            stdout=subprocess.DEVNULL,
            pass_fds=[arena.fd],
            timeout=30,  # to start Python, on a machine that computes something else
            check=False,
        )


def connect(arena: Arena) -> None:
    """Connect to the watcher until this process ends. Every rank of the node calls it, after `start`."""
    with ignored(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.settimeout(_PATIENCE)  # another user may have taken the address
        made.connect(f"\0{_address(arena)}")
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        kept = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _HIGH if most < 0 else min(_HIGH, most // 2))
        made.close()
        file = file_of(kept)
        os.register_at_fork(after_in_child=lambda: os.close(kept) if file_of(kept) == file else None)


def _address(arena: Arena) -> str:
    return f"shmcoll-watcher-{arena.nonce}"


def _state(arena: Arena, rank: int) -> int:
    return layout.record_offset(arena.ranks, rank, layout.BY_RANK) + layout.RECORD_STATE
