"""Joining a job whose ranks are on several machines: over MPI, through mpi4py.

Nodes. MPI says which ranks can share memory (`Split_type(SHARED)`). Within these, ranks are on one node if they have
the same boot, the same /dev/shm, and the same SHMCOLL_NODE. So two containers of one host are two nodes, and a user can
pretend that ranks of one machine are on several. Host names are only for messages, and variables of launchers are not
read.

The steps, which all ranks take together. Each is an exchange of MPI, so no rank guesses, and each has the limit of
joining (`exchange.py`), except that MPI splits its communicator without one, when all ranks have arrived:

1. duplicate the communicator; exchange the facts about each rank. A difference that matters is an error on all ranks
   that names the node: another version, another byte order, an MPI without threads
2. the lowest rank of a node draws a random name; all ranks learn the names. The ranks of a node meet in an arena under
   it (`rendezvous.py`)
3. exchange how that went: if a node has no room in /dev/shm, all ranks of all nodes raise what it says
4. rank 0 of each node writes into the arena which node of which job it is, for programs that look at it from outside
   (`engine/memory/node_words.py`)
5. make the communicator of the node, and the one over nodes

With all ranks on one node there is nothing more to do: the result is an ordinary communicator.
"""

import hashlib
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Any

import shmcoll
from shmcoll.communicator import Communicator
from shmcoll.engine.compiler import object_cache
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import node_words
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system import log
from shmcoll.engine.system.cores import usable_cores
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.errors import CallNotAllowed, ShmcollError
from shmcoll.nodes import clocks
from shmcoll.nodes.job import Job
from shmcoll.nodes.mpi import watcher
from shmcoll.nodes.mpi.progress import Progress
from shmcoll.nodes.mpi.topology import Topology, group_by_key, node_names
from shmcoll.nodes.mpi.wire import Wire, check_thread_level, import_mpi
from shmcoll.runtime.local_rank import LocalRank
from shmcoll.startup import foreign_end, machine, rank_process, rendezvous
from shmcoll.startup.exchange import Exchange

LEADERS = 4  # at most, by default

_ADVICE = (
    "it is another MPI than that of this mpiexec. Start the job with its mpiexec, or set MPI4PY_LIBMPI to the library "
    "(libmpi.so) of this one"
)
_ADVICE_UNDER_SRUN = (
    "srun offers it nothing by which ranks find others. Start the job with srun --mpi=pmi2 for MPICH and Intel MPI, "
    "or --mpi=pmix for Open MPI; srun --mpi=list shows what this cluster has"
)


def join(why: str, size: int, launcher: str, limits: tuple[float, float], leaders: int | None) -> Communicator:
    """Join the job that an MPI launcher has started on several nodes, and return the communicator of all ranks.

    Args:
        why: why MPI is needed, for messages.
        size: the number of ranks that the launcher says.
        launcher: its name.
        limits: seconds of one wait, and of joining.
        leaders: see `connect`.
    """
    if "shmcoll.mpi" in sys.modules:
        raise ShmcollError(
            f"{launcher} has started ranks on several machines ({why}), where shmcoll.mpi cannot be the MPI; a real "
            f"one is there already: leave out --mpi and `import shmcoll.mpi`"
        )
    mpi = import_mpi(why)
    found = mpi.COMM_WORLD.Get_size()
    if found != size:
        library = mpi.Get_library_version().splitlines()[0]
        raise ShmcollError(
            f"{launcher} has started {size} ranks, and the MPI of mpi4py ({library}) finds {found} on {_host()}: "
            f"{_ADVICE_UNDER_SRUN if launcher == 'srun' else _ADVICE}"
        )
    return connect(mpi, mpi.COMM_WORLD, launcher, limits, leaders)


def connect(mpi: Any, comm: Any, launcher: str, limits: tuple[float, float], leaders: int | None) -> Communicator:
    """Return the communicator of all ranks of an MPI communicator. All of them call it.

    leaders: how many ranks of a node talk to other nodes about long arrays; None for the default.

    Raises:
        ShmcollError: on all ranks, what does not fit.
        TypeError: `comm` is not an intracommunicator.
        ValueError: `leaders` is not positive.
    """
    if leaders is not None and leaders < 1:
        raise ValueError(f"leaders must be at least 1, got {leaders}")
    if not isinstance(comm, mpi.Comm) or comm == mpi.COMM_NULL or comm.Is_inter():
        raise TypeError(
            f"from_mpi needs an intracommunicator of mpi4py, such as MPI.COMM_WORLD, got {_kind(mpi, comm)}; merge an "
            f"inter-communicator with Merge() first"
        )
    return _connect(mpi, Exchange(mpi, comm, limits[1]).duplicate(), launcher, limits, leaders)


def _connect(mpi: Any, own: Any, launcher: str, limits: tuple[float, float], leaders: int | None) -> Communicator:
    """Make that communicator from an MPI communicator that nobody else uses."""
    exchange = Exchange(mpi, own, limits[1])
    topology, told = _find_nodes(mpi, own, exchange, leaders)
    here = topology.local
    tokens = exchange.all_gather(secrets.token_hex(8))
    arena, error, raised = None, "", None
    try:
        arena = _meet(f"nodes:{tokens[here[0]]}", topology.index, len(here), limits)
    except Exception as failure:
        error, raised = f"{type(failure).__name__}: {failure}", failure
    try:
        _raise_together(exchange, topology, error)
    except ShmcollError:
        if raised:
            reraise_of_handler(raised)
        raise
    assert arena is not None
    if topology.index:
        object_cache.leave_to_rank_0()
    elif len(topology.nodes) > 1:
        node_words.write_facts(arena, tokens[0], topology.nodes, topology.names, topology.node)
    rank_process.let_ranks_read(os.getppid())
    foreign_end.install()
    local_rank = LocalRank(arena, topology.index, launcher)
    node = Communicator(local_rank, Group.world(arena), "world")
    log.note_joined(topology.rank, arena.nonce if len(topology.nodes) == 1 else tokens[0])
    if len(topology.nodes) == 1:
        return node
    wire = Wire(mpi, own)
    # Also the ranks of other nodes that are simulated on this machine want its cores
    neighbours = sum(one["key"][1] == told[topology.rank]["key"][1] for one in told)
    progress = Progress(wire, local_rank, here, crowded=neighbours > usable_cores())
    usual = min(LEADERS, *(max(one["cores"] // 2, 2) for one in told))

    def join_again(survivors: Any) -> Communicator:
        return _connect(mpi, survivors, launcher, limits, leaders)

    job = Job(topology, wire, progress, node, leaders or usual, join_again)
    if local_rank.recorder:
        inner = job.world._dispatcher.inner._dispatcher
        inner.record_by(None)
        local_rank.recorder.note_clock(*clocks.difference(job.world))
        inner.record_by(local_rank.recorder)
    if watcher.is_needed():
        if topology.index == 0:
            watcher.start(arena)
        exchange.barrier()
        watcher.connect(arena)
    return job.world


def running_mpi() -> Any:
    """Return the module `mpi4py.MPI`. Raises `CallNotAllowed` if MPI does not run."""
    mpi = import_mpi("from_mpi needs MPI")
    if mpi.Is_finalized() or not mpi.Is_initialized():
        raise CallNotAllowed("from_mpi: MPI is not running: call it after MPI.Init() and before MPI.Finalize()")
    return mpi


# --- facts ------------------------------------------------------------------------------------------------------------


def _find_nodes(mpi: Any, comm: Any, exchange: Exchange, leaders: int | None) -> tuple[Topology, list[dict[str, Any]]]:
    """Return the nodes, and the facts about each rank. Raises on all ranks if something does not fit."""
    shared = comm.Split_type(mpi.COMM_TYPE_SHARED)
    first = exchange.within(shared).all_gather(comm.Get_rank())[0]
    shared.Free()
    here = machine.identity()
    mine = {
        "key": [first, *here],
        "host": here[2] or _host(),
        "version": shmcoll.__version__,
        "routines": _sources_hash(),
        "byteorder": sys.byteorder,
        "wrong": check_thread_level(mpi),
        "leaders": leaders,
        "cores": usable_cores(),
    }
    told: list[dict[str, Any]] = exchange.all_gather(mine)
    nodes = group_by_key([tuple(one["key"]) for one in told])
    topology = Topology(nodes, node_names(nodes, [one["host"] for one in told]), comm.Get_rank())
    for rank, one in enumerate(told):
        if one["wrong"]:
            raise ShmcollError(f"{topology.describe(rank)}: {one['wrong']}")
    for fact, what in (
        ("version", "version of shmcoll"),
        ("routines", "code of shmcoll's routines"),
        ("byteorder", "byte order"),
        ("leaders", "number of leaders"),
    ):
        values = {one[fact] for one in told}
        if len(values) > 1:
            said = "; ".join(
                f"{topology.describe_node(node)}: {told[ranks[0]][fact]}" for node, ranks in enumerate(nodes)
            )
            raise ShmcollError(f"the nodes of this job differ in the {what}: {said}. Make it the same on all nodes")
    return topology, told


def _raise_together(exchange: Exchange, topology: Topology, error: str) -> None:
    """Raise on all ranks if one of them has an error."""
    errors = exchange.all_gather(error)
    for rank, text in enumerate(errors):
        if text:
            raise ShmcollError(f"{topology.describe(rank)} cannot join: {text}")


def _meet(key: str, index: int, size: int, limits: tuple[float, float]) -> Arena:
    timeout, patience = limits
    if size == 1:
        return arenas.create(1, timeout=timeout)
    return rendezvous.meet(key, index, size, wait_timeout=timeout, patience=patience)


def _host() -> str:
    return socket.gethostname()


def _sources_hash() -> str:
    """Return a hash of the sources that the machine code of routines is made from."""
    package = Path(shmcoll.__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*package.glob("engine/**/*.py"), *package.glob("collectives/*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _kind(mpi: Any, comm: Any) -> str:
    if not isinstance(comm, mpi.Comm):
        return type(comm).__name__
    return "MPI.COMM_NULL" if comm == mpi.COMM_NULL else "an inter-communicator"
