"""MPI's chapter on ports: by these, groups of several jobs connect. Ports are published under names.

All of it is one step: two groups join a job beside their own (`shmcoll/startup/beside.py`), and its communicator is the
native one of an intercommunicator.
"""

import contextlib
from collections.abc import Iterator

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import put_text, text_at
from shmcoll.mpi.chapters.intercommunicators import of_jobs
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import COMM
from shmcoll.mpi.objects.info import Info
from shmcoll.mpi.process import PROCESS
from shmcoll.startup import beside, greeting, ports
from shmcoll.startup.beside import NotMet
from shmcoll.startup.ports import NoName, NoPort, Port

_LONGEST_PORT = c["MPI_MAX_PORT_NAME"]

_open: dict[str, Port] = {}


@contextlib.contextmanager
def failing_as(error_class: str) -> Iterator[None]:
    """Give what nothing came of an error class of MPI."""
    try:
        yield
    except (NotMet, NoPort, NoName, OSError) as error:
        raise MPIError(error_class, str(error)) from error


def check(comm: Comm, root: int) -> None:
    """Raise if a group cannot join another one, with this root."""
    comm.check_intra()
    comm.check_root(root)


@mpi(nullable=("info",))
def Open_port(_info: Info | None, name: int) -> None:
    port = Port()
    _open[port.name] = port
    put_text(name, port.name, _LONGEST_PORT)


@mpi()
def Close_port(name: int) -> None:
    with failing_as("MPI_ERR_PORT"):
        _opened(text_at(name)).close()
        del _open[text_at(name)]


def _opened(name: str) -> Port:
    if name not in _open:
        raise NoPort(f"this process has no open port {name!r}")
    return _open[name]


def _name(address: int) -> str:
    """Return the name that the root passes; others may pass a null pointer."""
    if not address:
        raise NoPort("port_name is a null pointer")
    return text_at(address)


@mpi(nullable=("port_name",))
def Comm_accept(name: int, _info: Info | None, root: int, comm: Comm) -> Comm:
    check(comm, root)
    with failing_as("MPI_ERR_PORT"):
        return of_jobs(
            comm, beside.accept(comm.native, root, PROCESS.me, lambda: _opened(_name(name)), look=lambda: None)
        )


@mpi(nullable=("port_name",))
def Comm_connect(name: int, _info: Info | None, root: int, comm: Comm) -> Comm:
    check(comm, root)
    with failing_as("MPI_ERR_PORT"):
        return of_jobs(comm, beside.connect(comm.native, root, PROCESS.me, lambda: ports.connect(_name(name)), "1"))


@mpi()
def Comm_join(fd: int) -> Comm | None:
    alone: Comm = COMM.find(c["MPI_COMM_SELF"])
    with failing_as("MPI_ERR_OTHER"), contextlib.suppress(beside.Elsewhere), greeting.of_descriptor(fd) as line:
        return of_jobs(alone, beside.connect(alone.native, 0, PROCESS.me, lambda: line, ""))
    return None


@mpi()
def Publish_name(service: int, _info: Info | None, port: int) -> None:
    with failing_as("MPI_ERR_SERVICE"):
        ports.publish(text_at(service), text_at(port))


@mpi()
def Unpublish_name(service: int, _info: Info | None, port: int) -> None:
    with failing_as("MPI_ERR_SERVICE"):
        ports.unpublish(text_at(service), text_at(port))


@mpi()
def Lookup_name(service: int, _info: Info | None, port: int) -> None:
    with failing_as("MPI_ERR_NAME"):
        put_text(port, ports.look_up(text_at(service)), _LONGEST_PORT)
