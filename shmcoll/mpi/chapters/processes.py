"""MPI's chapter on processes that come later: those that a group spawns, and those that connect by ports.

All of these are one step: two groups join a job beside their own (`shmcoll/startup/beside.py`), and its communicator is
the native one of an intercommunicator. A group that spawns opens a port, has `shmrun` start the children, which connect
to it in MPI_Init, and accepts (`shmcoll/startup/children.py`).
"""

import contextlib
from collections.abc import Callable, Iterator

from shmcoll.errors import RankFailed
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers, pointers_at, put_text, text_at
from shmcoll.mpi.chapters.communicators import free
from shmcoll.mpi.chapters.intercommunicators import of_jobs
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import COMM, INFO
from shmcoll.mpi.objects.info import Info
from shmcoll.mpi.process import PROCESS
from shmcoll.startup import beside, ports
from shmcoll.startup.beside import NotMet
from shmcoll.startup.children import Children
from shmcoll.startup.orders import Command
from shmcoll.startup.ports import NoName, NoPort, Port

_LONGEST_PORT = c["MPI_MAX_PORT_NAME"]
_OWN = c["MPI_COMM_WORLD"], c["MPI_COMM_SELF"]

_open: dict[str, Port] = {}


@contextlib.contextmanager
def _as(error_class: str) -> Iterator[None]:
    """Give what nothing came of an error class of MPI."""
    try:
        yield
    except (NotMet, NoPort, NoName, OSError) as error:
        raise MPIError(error_class, str(error)) from error


def _me() -> beside.Process:
    return PROCESS.known.process(PROCESS.rank)


# --- ports ------------------------------------------------------------------------------------------------------------


@mpi(nullable=("info",))
def Open_port(_info: Info | None, name: int) -> None:
    port = Port()
    _open[port.name] = port
    put_text(name, port.name, _LONGEST_PORT)


@mpi()
def Close_port(name: int) -> None:
    with _as("MPI_ERR_PORT"):
        _opened(text_at(name)).close()
        del _open[text_at(name)]


def _opened(name: str) -> Port:
    if name not in _open:
        raise NoPort(f"this process has no open port {name!r}")
    return _open[name]


@mpi()
def Comm_accept(name: int, _info: Info | None, root: int, comm: Comm) -> Comm:
    _check(comm, root)
    with _as("MPI_ERR_PORT"):
        port = lambda: _opened(text_at(name))  # noqa: E731 - the name is the root's
        return of_jobs(comm, beside.accept(comm.native, root, _me(), port, look=lambda: None))


@mpi()
def Comm_connect(name: int, _info: Info | None, root: int, comm: Comm) -> Comm:
    _check(comm, root)
    with _as("MPI_ERR_PORT"):
        return of_jobs(comm, beside.connect(comm.native, root, _me(), lambda: ports.connect(text_at(name)), "1"))


@mpi()
def Comm_join(fd: int) -> Comm | None:
    alone: Comm = COMM.find(c["MPI_COMM_SELF"])
    with _as("MPI_ERR_OTHER"), contextlib.suppress(beside.Elsewhere), beside.of_descriptor(fd) as line:
        return of_jobs(alone, beside.connect(alone.native, 0, _me(), lambda: line, ""))
    return None


@mpi()
def Publish_name(service: int, _info: Info | None, port: int) -> None:
    with _as("MPI_ERR_SERVICE"):
        ports.publish(text_at(service), text_at(port))


@mpi()
def Unpublish_name(service: int, _info: Info | None, port: int) -> None:
    with _as("MPI_ERR_SERVICE"):
        ports.unpublish(text_at(service), text_at(port))


@mpi()
def Lookup_name(service: int, _info: Info | None, port: int) -> None:
    with _as("MPI_ERR_NAME"):
        put_text(port, ports.look_up(text_at(service)), _LONGEST_PORT)


@mpi(inout=("comm",))
def Comm_disconnect(handle: Numbers) -> None:
    """Wait for the others, unless they have left the job."""
    comm: Comm = COMM.find(handle.value)
    try:
        if handle.value not in _OWN:
            comm.native.barrier()
    except RankFailed:
        if comm.native._dispatcher.failures.has_failed():
            raise
    finally:
        free(comm)
        handle.value = COMM.null


# --- children ---------------------------------------------------------------------------------------------------------


@mpi()
def Comm_get_parent() -> Comm | None:
    parent = PROCESS.parent
    return parent if parent and parent.handle != COMM.null else None


@mpi()
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
    if ranks < 1:
        raise MPIError("MPI_ERR_ARG", f"maxprocs must be 1 or more, got {ranks}")
    info = info or Info()
    words = text_at(command).strip(), *(_texts(argv) if argv else ())
    return Command(words, ranks, info.get("wdir", info.get("wd", "")), info.get("path", ""))


def _texts(array: int) -> Iterator[str]:
    """Yield the texts of an array that ends with a null pointer."""
    for pointer in pointers_at(array, 1 << 20):
        if not pointer:
            return
        yield text_at(pointer)


def _spawn(comm: Comm, root: int, codes: Numbers, read: Callable[[], list[Command]]) -> Comm:
    _check(comm, root)
    started: list[Children] = []
    port: list[Port] = []

    def opened() -> Port:
        if not started:
            port.append(Port())
            started.append(Children(read(), port[0], ["--mpi"]))
        return port[0]

    try:
        with _as("MPI_ERR_SPAWN"):
            limit, look = comm.native.timeout, lambda: started[0].look()
            children = of_jobs(comm, beside.accept(comm.native, root, _me(), opened, limit=limit, look=look))
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
    parent = of_jobs(world, beside.connect(world.native, 0, _me(), lambda: ports.connect(port), "1"))
    parent.name = "MPI_COMM_PARENT"
    return parent


def _check(comm: Comm, root: int) -> None:
    comm.check_intra()
    comm.check_root(root)


PROCESS.born = _born
