"""MPI's chapter on sessions: MPI without MPI_Init, by named sets of processes."""

from shmcoll.mpi.abi.memory import Numbers, put_text, text_at
from shmcoll.mpi.chapters import groups
from shmcoll.mpi.objects.communicators import Group
from shmcoll.mpi.objects.error_handlers import ErrorHandler
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import SESSION
from shmcoll.mpi.objects.info import Info, made
from shmcoll.mpi.process import PROCESS

WORLD, SELF = "mpi://WORLD", "mpi://SELF"
_SETS = (WORLD, SELF)


class Session:
    """A session. All of a process use the same processes."""

    handle = SESSION.null

    def __init__(self, errhandler: ErrorHandler):
        self.errhandler = errhandler


@mpi(nullable=("info",))
def Session_init(_info: Info | None, errhandler: ErrorHandler) -> Session:
    PROCESS.join()
    session = Session(errhandler)
    SESSION.add(session)
    return session


@mpi(inout=("session",))
def Session_finalize(session: Numbers) -> None:
    SESSION.remove(SESSION.find(session.value))
    session.value = SESSION.null


@mpi()
def Session_get_info(_session: Session) -> Info:
    return made({"thread_level": "MPI_THREAD_MULTIPLE"})


@mpi()
def Session_get_num_psets(_session: Session, _info: Info | None) -> int:
    return len(_SETS)


@mpi(inout=("pset_len",), nullable=("pset_name",))
def Session_get_nth_pset(_session: Session, _info: Info | None, n: int, room: Numbers, name: int) -> None:
    if not 0 <= n < len(_SETS):
        raise MPIError("MPI_ERR_ARG", f"there is no set of processes number {n}")
    if room.value > 0:
        put_text(name, _SETS[n], room.value)
    else:
        room.value = len(_SETS[n]) + 1


@mpi()
def Session_get_pset_info(_session: Session, name: int) -> Info:
    return made({"mpi_size": str(len(_ranks(text_at(name))))})


@mpi()
def Group_from_session_pset(_session: Session, name: int) -> Group:
    return groups.made(_ranks(text_at(name)))


def _ranks(name: str) -> list[int]:
    """Return the ranks of a set of processes.

    Raises:
        MPIError: there is no set of this name.
    """
    known = {WORLD.lower(): list(range(PROCESS.world.size)), SELF.lower(): [PROCESS.rank]}
    if name.lower() not in known:
        raise MPIError("MPI_ERR_ARG", f"there is no set of processes {name!r}: there are {' and '.join(_SETS)}")
    return known[name.lower()]
