"""MPI's chapter on processes that come later: a group spawns them, and parts from them.

A group that spawns opens a port, has `shmrun` start the children, which connect to it in MPI_Init, and accepts
(`shmcoll/startup/children.py`).
"""

import itertools
from collections.abc import Callable, Iterator

from shmcoll.engine.memory import records
from shmcoll.errors import RankFailed
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers, number_type, pointers_at, text_at
from shmcoll.mpi.chapters.communicators import free
from shmcoll.mpi.chapters.intercommunicators import of_jobs
from shmcoll.mpi.chapters.ports import check, failing_as
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import COMM, INFO
from shmcoll.mpi.objects.info import Info
from shmcoll.mpi.process import PROCESS
from shmcoll.startup import beside, ports
from shmcoll.startup.children import Children
from shmcoll.startup.orders import Command
from shmcoll.startup.ports import Port

_OWN = c["MPI_COMM_WORLD"], c["MPI_COMM_SELF"]


@mpi(inout=("comm",))
def Comm_disconnect(handle: Numbers) -> None:
    """Wait for the others, unless they have left the job."""
    comm: Comm = COMM.find(handle.value)
    try:
        if handle.value not in _OWN:
            comm.native.barrier()
    except RankFailed as error:
        group = comm.native._dispatcher.group
        if error.rank is None or records.how_failed(group.arena, group.ranks[error.rank]):
            raise
    finally:
        free(comm)
        handle.value = COMM.null


@mpi()
def Comm_get_parent() -> Comm | None:
    parent = PROCESS.parent
    return parent if parent and parent.handle != COMM.null else None


@mpi(nullable=("command",))
def Comm_spawn(command: int, argv: int, ranks: int, info: Info | None, root: int, comm: Comm, codes: Numbers) -> Comm:
    return _spawn(comm, root, codes, lambda: [_command(command, argv, ranks, info)])


@mpi()
def Comm_spawn_multiple(
    count: int, commands: int, argvs: int, ranks: Numbers, infos: Numbers, root: int, comm: Comm, codes: Numbers
) -> Comm:
    def read() -> list[Command]:
        each = list(pointers_at(argvs, count)) if argvs else [0] * count
        hints = [INFO.get(handle) for handle in infos.read(count)] if infos else [None] * count
        return list(map(_command, pointers_at(commands, count), each, ranks.read(count), hints))

    return _spawn(comm, root, codes, read)


def _command(command: int, argv: int, ranks: int, info: Info | None) -> Command:
    if not command:
        raise MPIError("MPI_ERR_ARG", "command is a null pointer")
    if ranks < 1:
        raise MPIError("MPI_ERR_ARG", f"maxprocs must be 1 or more, got {ranks}")
    info = info or Info()
    words = text_at(command).strip(), *(_texts(argv) if argv else ())
    return Command(words, ranks, info.get("wdir", info.get("wd", "")), info.get("path", ""))


def _texts(array: int) -> Iterator[str]:
    """Yield the texts of an array that ends with a null pointer."""
    pointers = Numbers(number_type("char *"), array)
    for i in itertools.count():
        if not pointers[i]:
            return
        yield text_at(pointers[i])


def _spawn(comm: Comm, root: int, codes: Numbers, read: Callable[[], list[Command]]) -> Comm:
    check(comm, root)
    started: list[Children] = []
    port: list[Port] = []

    def opened() -> Port:
        if not started:
            port.append(Port())
            started.append(Children(read(), port[0], ["--mpi"]))
        return port[0]

    try:
        with failing_as("MPI_ERR_SPAWN"):
            limit, look = comm.native.timeout, lambda: started[0].look()
            children = of_jobs(comm, beside.accept(comm.native, root, PROCESS.me, opened, limit=limit, look=look))
    except BaseException:
        for one in started:
            one.end()
        raise
    finally:
        for used in port:
            used.close()
    assert children.remote
    if codes:
        codes.write([c["MPI_SUCCESS"]] * children.remote.size)
    return children


def _born(port: str) -> Comm:
    world = PROCESS.world
    parent = of_jobs(world, beside.connect(world.native, 0, PROCESS.me, lambda: ports.connect(port), "1"))
    parent.name = "MPI_COMM_PARENT"
    return parent


PROCESS.born = _born
