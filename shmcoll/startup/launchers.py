"""The launchers under which shmcoll can join. Each is recognised by the environment variables that it sets.

A launcher gives a rank its number, the size of the job, and a key under which the ranks meet: it is the same on all
ranks of this job, and differs from that of any other job (see `rendezvous.py`). A process that a rank starts inherits
the variables, but is not a rank (`marks.py`).
"""

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from shmcoll.engine.layout import CELL_BYTES, most_ranks
from shmcoll.engine.system.processes import ancestors, process_start
from shmcoll.engine.system.text import read_text
from shmcoll.errors import ShmcollError
from shmcoll.startup import marks, rank_process

_Environment = Mapping[str, str]


#: launchers whose ranks are joined over MPI if they are on several machines
MPI_LAUNCHERS = ("openmpi", "hydra", "srun", "PMI")


class SeveralMachines(ShmcollError):
    """A launcher has started ranks on several machines. why: how that shows. size: the number of ranks."""

    def __init__(self, launcher: str, why: str, size: int):
        super().__init__(
            f"{launcher} has started ranks on several machines ({why}), and without MPI shmcoll joins those of one. "
            f"Start them with mpiexec or srun, or on one machine"
        )
        self.launcher, self.why, self.size_of_job = launcher, why, size


class Placement(NamedTuple):
    """This process's place in a job that another launcher started."""

    launcher: str
    rank: int
    size: int
    key: str


class _Launcher(NamedTuple):
    """name. find: returns the place that it has given. names: variables that differ between its jobs and ranks."""

    name: str
    find: Callable[[_Environment], Placement | None]
    names: tuple[str, ...]

    def trace(self, environment: _Environment) -> marks.Trace:
        if self.find is _variables:
            where = f"{environment.get('MASTER_ADDR', '')}:{environment.get('MASTER_PORT', '')}".strip(":")
        else:
            where = _ancestor(_PROCESSES.get(self.name, ()))
        return marks.Trace.of([environment.get(name) for name in self.names], where)

    def has_started(self, mark: marks.Mark, environment: _Environment) -> bool:
        """Return whether the process of the mark got these variables from this launcher, and this process by it."""
        now, then = self.trace(environment), mark.traces.get(self.name)
        if then is None or now.variables != then.variables:
            return False
        if now.where in (then.where, ""):  # this process may have outlived the launcher
            return True
        if self.find is _variables:
            raise ShmcollError(
                f"process {mark.pid}, which has joined a job, has started this one, whose RANK and WORLD_SIZE are the "
                f"same, and MASTER_ADDR and MASTER_PORT are not. If it is not a rank, remove RANK from its "
                f"environment. If it is a rank of another job, remove {marks.NAME}"
            )
        return False


def find_placement(environment: _Environment) -> Placement | None:
    """Return the place that a launcher has given this process; None if it has no launcher, or a rank has started it.

    Raises `SeveralMachines` if the ranks are on several machines, and `ShmcollError` if the variables contradict each
    other.
    """
    mark, is_of_rank = marks.of_other(environment), False
    for launcher in _LAUNCHERS:
        several = None
        try:
            place = launcher.find(environment)
        except SeveralMachines as error:
            place, several = None, error
        if place is None and several is None:
            continue
        if mark is not None and launcher.has_started(mark, environment):
            is_of_rank = True
        elif several is not None:
            raise several
        elif place is not None and not (is_of_rank and launcher.find is _variables):  # the rank may have set these
            return _checked(place)
    return None


def mark_children(job: str | None) -> None:
    """Mark this process, which has joined, for those that it starts. job: the name that it gave."""
    marks.write(os.environ, job, {launcher.name: launcher.trace(os.environ) for launcher in _LAUNCHERS})


def _checked(place: Placement) -> Placement:
    if not 0 <= place.rank < place.size:
        raise ShmcollError(f"{place.launcher} says that this is rank {place.rank} of {place.size}")
    if place.size > (most := most_ranks(CELL_BYTES)):
        raise ShmcollError(
            f"{place.launcher} has started {place.size} ranks, and shmcoll joins {most} at most; start fewer"
        )
    return place


_PROCESSES = {
    "openmpi": ("prterun", "prted", "orted", "orterun", "mpirun", "mpiexec"),
    "hydra": ("hydra_",),
    "torchrun": ("pt_elastic", "torchrun"),
}


def die_with_launcher(place: Placement, environment: _Environment) -> None:
    """Have the kernel kill this rank when its launcher is killed. Not all launchers do that.

    Raises `ShmcollError` if the launcher has already ended.
    """
    names = _PROCESSES.get(place.launcher)
    if names is None:
        return
    parent = os.getppid()
    with contextlib.suppress(OSError):
        children = read_text(f"/proc/{parent}/task/{parent}/children").split()
        # Of the launcher's main thread: the signal comes when the thread that has forked us ends
        if read_text(f"/proc/{parent}/comm").startswith(names) and str(os.getpid()) in children:
            rank_process.die_with(parent)
            return
    if place.launcher == "torchrun":
        gone = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and not _listens(
            environment["MASTER_ADDR"], int(environment["MASTER_PORT"])
        )
    else:
        gone = not _ancestor(names)
    if gone:
        raise ShmcollError(f"{place.launcher}, which has started this rank, has ended")


def _listens(host: str, port: int) -> bool:
    import socket

    try:
        socket.create_connection((host, port), 5.0).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    return True


def _torchrun(e: _Environment) -> Placement | None:
    if "TORCHELASTIC_RUN_ID" not in e:
        return None
    key = ":".join(
        e.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    )
    return _place(e, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", lambda: key)


def _open_mpi(e: _Environment) -> Placement | None:
    job = e.get("PMIX_NAMESPACE") or e.get("OMPI_MCA_ess_base_jobid")
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
    return _place(e, "openmpi", *names, lambda: job or _starter("orted", "prted", "prterun", "mpirun"))


def _hydra(e: _Environment) -> Placement | None:
    """Return the place of a rank of MPICH or Intel MPI: their proxy process is the parent of all ranks of a machine."""
    if "MPI_LOCALNRANKS" not in e:  # other launchers that speak PMI, such as srun, have no such variable
        return None
    return _place(e, "hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", lambda: _starter("hydra_"))


def _srun(e: _Environment) -> Placement | None:
    step = e.get("SLURM_STEP_ID", "")
    if not step.isdigit() or int(step) >= 0xFFFFFFF0:  # the batch script itself is a step with such a number
        return None
    key = f"{e.get('SLURM_JOB_ID', '')}.{step}"
    nodes = e.get("SLURM_STEP_NUM_NODES", e.get("SLURM_NNODES", "1"))
    size = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in e else "SLURM_NTASKS"
    if nodes != "1":
        tasks = e.get(size, "")
        raise SeveralMachines("srun", f"SLURM_STEP_NUM_NODES={nodes}", int(tasks) if tasks.isdigit() else 0)
    return _place(e, "srun", "SLURM_PROCID", size, None, lambda: key)


def _msrun(e: _Environment) -> Placement | None:
    if "MS_ROLE" not in e:
        return None
    if e["MS_ROLE"] == "MS_SCHED":
        # msrun runs the script once more as MindSpore's scheduler, which takes no part in collectives.
        raise SystemExit(0)
    key = f"{e.get('MS_SCHED_HOST', '')}:{e.get('MS_SCHED_PORT', '')}"
    rank = "RANK_ID" if "RANK_ID" in e else "MS_NODE_ID"
    return _place(e, "msrun", rank, "MS_WORKER_NUM", "MS_LOCAL_WORKER_NUM", lambda: key)


def _pmi(e: _Environment) -> None:
    """Leave the ranks of a launcher that is not known to MPI, which finds them by PMI."""
    size = e.get("PMI_SIZE", "")
    if "PMI_RANK" in e and size.isdigit() and int(size) > 1:
        raise SeveralMachines("PMI", f"PMI_SIZE={size}, and nothing says how many of them are here", int(size))


def _variables(e: _Environment) -> Placement | None:
    """Return the place of a plain process that was given torch's variables, such as one of `multiprocessing`."""

    def key() -> str:
        if "MASTER_PORT" in e:
            return f"{e.get('MASTER_ADDR', '')}:{e['MASTER_PORT']}"
        return _starter()

    return _place(e, "environment", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", key)


def _place(
    e: _Environment, launcher: str, rank: str, size: str, local_size: str | None, key: Callable[[], str]
) -> Placement | None:
    if rank not in e or size not in e:
        return None
    try:
        numbers = int(e[rank]), int(e[size])
    except ValueError:
        raise ShmcollError(f"{launcher}: {rank}={e[rank]!r} and {size}={e[size]!r} are not numbers") from None
    if local_size and e.get(local_size, e[size]) != e[size]:
        raise SeveralMachines(launcher, f"{size}={e[size]} but {local_size}={e[local_size]}", numbers[1])
    if launcher in MPI_LAUNCHERS and "SHMCOLL_NODE" in e:
        raise SeveralMachines(launcher, f"SHMCOLL_NODE={e['SHMCOLL_NODE']}", numbers[1])
    return Placement(launcher, *numbers, f"{launcher}:{key()}")


def _starter(*names: str) -> str:
    """Return pid and start time of the nearest ancestor with one of these names (or their beginning), or else of the
    parent.

    The ranks of a job share it. A shell between the launcher and a rank does no harm if the launcher is known.
    """
    return _ancestor(names) or _identity(os.getppid())


def _ancestor(names: tuple[str, ...]) -> str:
    return next((_identity(pid) for pid, name in ancestors() if names and name.startswith(names)), "")


def _identity(pid: int) -> str:
    return f"{pid}.{process_start(pid)}"


#: the first that has set its variables decides
_LAUNCHERS = (
    _Launcher("torchrun", _torchrun, ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "RANK", "WORLD_SIZE")),
    _Launcher("openmpi", _open_mpi, ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_COMM_WORLD_RANK")),
    _Launcher("hydra", _hydra, ("PMI_RANK", "PMI_SIZE")),
    _Launcher("srun", _srun, ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID")),
    _Launcher("msrun", _msrun, ("MS_SCHED_HOST", "MS_SCHED_PORT")),
    _Launcher("PMI", _pmi, ("PMI_RANK", "PMI_SIZE")),
    _Launcher("environment", _variables, ("RANK", "WORLD_SIZE")),
)
