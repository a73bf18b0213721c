"""How a process becomes a rank, for programs that start ranks by fork: shmrun and the server.

A rank dies with the process that started it. It leads a process group, so that it can be signalled with its children.
It shares a session with the other ranks, but not with the process that waits for the job, so that Ctrl-C reaches only
that process. It knows its place from its environment. It draws random numbers of its own.
"""

import ctypes
import errno
import gc
import os
import signal
import sys
from pathlib import Path

from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.system.refusals import refused
from shmcoll.engine.system.switches import is_on

_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with(starter: int) -> None:
    """Have the kernel kill this process when the thread that started it ends. starter: the process of that thread."""
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != starter:  # it ended before that took effect
        signal.raise_signal(signal.SIGKILL)


def outlive_thread() -> None:
    """Undo `die_with`."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def let_ranks_read(starter: int) -> None:
    """Let the other children of the process that started the ranks read this process's memory, where the Yama module
    (ptrace_scope 1) lets parents alone do so. Processes of other users still cannot. Without Yama nothing changes."""
    _LIBC.prctl(_PR_SET_PTRACER, starter, 0, 0, 0)


def begin(starter: int, arena: Arena, rank: int, launcher: str) -> None:
    """Prepare the child, first of all: it dies with the process that forked it, leads a process group, and knows its
    place."""
    die_with(starter)
    os.setpgid(0, 0)
    os.environ.update(variables(arena, rank, launcher, starter))


def begin_in_fork(arena: Arena) -> None:
    """Prepare a child that runs the rank's program itself, instead of executing another one."""
    _reseed()
    arena.unmap()  # the rank attaches by itself


def begin_to_execute() -> None:
    """Prepare a child that is about to execute a program. Such a program expects the defaults that Python has
    changed."""
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(signum, signal.SIG_DFL)


def replace(fd: int, standard: int) -> None:
    """Have `fd` take the place of a standard descriptor, which is inherited."""
    os.dup2(fd, standard)
    os.close(fd)


def freeze_memory() -> None:
    """Freeze all objects before ranks are forked, so that their garbage collectors do not touch, and so copy, shared
    pages. Until then a launcher disables its own: loading leaves little garbage, and looking for it takes 20 ms."""
    gc.freeze()
    gc.enable()


def cannot_start(rank: int, ranks: int, error: OSError) -> str:
    """Return why a rank could not be started, and what to do."""
    if reason := refused(error):
        return f"cannot start rank {rank} of {ranks}: {reason}"
    limit = {errno.EMFILE: "ulimit -n", errno.EAGAIN: "ulimit -u"}.get(error.errno or 0)
    advice = "Start fewer ranks" + (f", or raise the limit ({limit})." if limit else ".")
    return f"cannot start rank {rank} of {ranks}: {error}. {advice}"


def prepare_environment() -> None:
    """Set the variables that all ranks of a job share. MASTER_ADDR and MASTER_PORT are for other libraries. The port is
    one on which no process listens now, so that jobs side by side do not meet."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    if "MASTER_PORT" not in os.environ:
        os.environ["MASTER_PORT"] = str(_free_port())


def fix_folder(current: str = "") -> None:
    """Make SHMCOLL_DUMP name a folder that does not depend on the current directory, which the program may change; drop
    the variable if it is 'off'. current: that of the program; empty: this process's."""
    if is_on("SHMCOLL_DUMP"):
        os.environ["SHMCOLL_DUMP"] = str(Path(current, os.environ["SHMCOLL_DUMP"]).absolute())
    else:
        os.environ.pop("SHMCOLL_DUMP", None)


def variables(arena: Arena, rank: int, launcher: str, starter: int) -> dict[str, str]:
    """Return the variables of one rank, in addition to those that all ranks share. starter: the process that starts
    the rank, and holds the arena's descriptor."""
    return {
        "SHMCOLL_ARENA": f"{arena.fd}:{arena.nonce}:{starter}",
        "SHMCOLL_LAUNCHER": launcher,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "RANK_ID": str(rank),
        "DEVICE_ID": str(rank),
        "WORLD_SIZE": str(arena.ranks),
        "LOCAL_WORLD_SIZE": str(arena.ranks),
        "RANK_SIZE": str(arena.ranks),
    }


def variables_of_mpich(arena: Arena, rank: int) -> dict[str, str]:
    """Return the variables that MPICH's launcher sets, by which programs know that a launcher of MPI has started them,
    before they import mpi4py."""
    ranks, size = ("PMI_RANK", "MPI_LOCALRANKID"), ("PMI_SIZE", "MPI_LOCALNRANKS")
    return dict.fromkeys(ranks, str(rank)) | dict.fromkeys(size, str(arena.ranks))


def threads() -> int:
    """Return the number of threads of this process, those that Python does not know included."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def _reseed() -> None:
    """Reseed numpy's global generator, which would draw the same numbers in every rank. `random` reseeds itself in a
    fork."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _free_port() -> int:
    import socket

    try:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return int(s.getsockname()[1])
    except OSError:  # no network here
        return 29500
