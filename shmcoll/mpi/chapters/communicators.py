"""MPI's chapter on communicators: how they are made, compared, named and freed."""

from typing import Any

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers, put_text, text_at
from shmcoll.mpi.chapters import groups, intercommunicators
from shmcoll.mpi.new_communicators import copied, duplicate, parted, subset
from shmcoll.mpi.objects.communicators import UNDEFINED, Comm, Group
from shmcoll.mpi.objects.error_handlers import ErrorHandler
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import COMM
from shmcoll.mpi.objects.info import Info
from shmcoll.mpi.objects.info import made as made_info
from shmcoll.mpi.objects.requests import WorkRequest, added
from shmcoll.mpi.process import PROCESS

LONGEST_NAME = c["MPI_MAX_OBJECT_NAME"]
CONGRUENT = c["MPI_CONGRUENT"]
_PERMANENT = c["MPI_COMM_WORLD"], c["MPI_COMM_SELF"]


@mpi()
def Comm_size(comm: Comm) -> int:
    return comm.size


@mpi()
def Comm_rank(comm: Comm) -> int:
    return comm.rank


@mpi()
def Comm_group(comm: Comm) -> Group:
    return groups.made(comm.group.ranks)


@mpi()
def Comm_compare(first: Comm, second: Comm) -> int:
    if first is second:
        return groups.IDENT
    if first.is_inter != second.is_inter:
        return groups.UNEQUAL
    found = [groups.compared(first.group, second.group)]
    if first.remote and second.remote:
        found.append(groups.compared(first.remote, second.remote))
    if groups.UNEQUAL in found:
        return groups.UNEQUAL
    return groups.SIMILAR if groups.SIMILAR in found else CONGRUENT


@mpi()
def Comm_dup(comm: Comm) -> Comm:
    return duplicate(comm, copied(comm.native))


@mpi()
def Comm_dup_with_info(comm: Comm, info: Info | None) -> Comm:
    copy = duplicate(comm, copied(comm.native))
    copy.info = dict(info or {})
    return copy


@mpi()
def Comm_idup(comm: Comm) -> tuple[Comm, Any]:
    copy = duplicate(comm, copied(comm.native))
    return copy, added(WorkRequest(comm, None))


@mpi()
def Comm_idup_with_info(comm: Comm, info: Info | None) -> tuple[Comm, Any]:
    copy, request = Comm_idup(comm)
    copy.info = dict(info or {})
    return copy, request


@mpi()
def Comm_split(comm: Comm, color: int, key: int) -> Comm | None:
    if color < 0 and color != UNDEFINED:
        raise MPIError("MPI_ERR_ARG", f"color {color} must be 0 or more, or MPI_UNDEFINED")
    if comm.is_inter:
        return intercommunicators.split(comm, None if color == UNDEFINED else color, key)
    return subset(comm, parted(comm.native, None if color == UNDEFINED else color, key))


@mpi()
def Comm_split_type(comm: Comm, kind: int, key: int, info: Info | None) -> Comm | None:
    """Give all ranks one group where the type is shared memory: they are on one machine. Other resources have no names
    here, so each rank gets MPI_COMM_NULL, as MPI allows."""
    guided = [c[f"MPI_COMM_TYPE_{name}"] for name in ("HW_GUIDED", "RESOURCE_GUIDED")]
    known = [*guided, c["MPI_COMM_TYPE_SHARED"], c["MPI_COMM_TYPE_HW_UNGUIDED"], UNDEFINED]
    if kind not in known:
        raise MPIError("MPI_ERR_ARG", f"{kind} is no type of communicator")
    names_memory = kind in guided and (info or Info()).get("mpi_hw_resource_type") == "mpi_shared_memory"
    shared = kind == c["MPI_COMM_TYPE_SHARED"] or names_memory
    return subset(comm, parted(comm.native, 0 if shared else None, key))


@mpi()
def Comm_create(comm: Comm, group: Group) -> Comm | None:
    """Groups of different ranks may be disjoint, so the group's first member tells them apart."""
    places = _places(comm, group)
    if comm.is_inter:
        return intercommunicators.create(comm, group)
    mine = comm.group.place(PROCESS.rank)
    return subset(comm, parted(comm.native, min(places) if mine in places else None, _key(places, mine)))


@mpi()
def Comm_create_group(comm: Comm, group: Group, tag: int) -> Comm | None:
    return _of_members(comm, group, f"MPI_Comm_create_group {tag}")


@mpi()
def Comm_create_from_group(group: Group, tag: int, info: Info | None, errhandler: ErrorHandler) -> Comm | None:
    comm = _of_members(PROCESS.world, group, f"MPI_Comm_create_from_group {text_at(tag)}")
    if comm is not None:
        comm.errhandler, comm.info = errhandler, dict(info or {})
    return comm


@mpi()
def Comm_get_parent() -> None:
    """No process was spawned."""


@mpi(inout=("comm",))
def Comm_free(comm: Numbers) -> None:
    free(COMM.find(comm.value))
    comm.value = COMM.null


def free(comm: Comm) -> None:
    """Forget a communicator. Its native one is closed when no request needs it any more."""
    if comm.handle in _PERMANENT:
        raise MPIError("MPI_ERR_COMM", f"{comm.in_words} cannot be freed")
    comm.attributes.clear(comm)
    COMM.remove(comm)
    comm.release()


@mpi()
def Comm_set_name(comm: Comm, name: int) -> None:
    comm.name = text_at(name)[: LONGEST_NAME - 1]


@mpi(nullable=("comm",))
def Comm_get_name(comm: Comm | None, name: int) -> int:
    return put_text(name, comm.name if comm else "MPI_COMM_NULL", LONGEST_NAME)


@mpi()
def Comm_set_info(comm: Comm, info: Info | None) -> None:
    comm.info.update(info or {})


@mpi()
def Comm_get_info(comm: Comm) -> Info:
    return made_info(comm.info)


def _places(comm: Comm, group: Group) -> list[int]:
    """Return the ranks in a communicator of the members of a group."""
    places = [comm.group.place(rank) for rank in group.ranks]
    if UNDEFINED in places:
        stranger = group.ranks[places.index(UNDEFINED)]
        raise MPIError("MPI_ERR_GROUP", f"rank {stranger} of MPI_COMM_WORLD is in the group and not in {comm.in_words}")
    return places


def _key(places: list[int], mine: int) -> int:
    return places.index(mine) if mine in places else 0


def _of_members(comm: Comm, group: Group, name: str) -> Comm | None:
    """Return the communicator of a group that only its members make. It is a split of a subgroup, so that ranks get
    the order of the group, and another one each time."""
    places = _places(comm, group)
    mine = comm.group.place(PROCESS.rank)
    if mine not in places:
        return None
    with comm.native.subgroup(sorted(places), name=name) as members:
        return subset(comm, parted(members, 0, _key(places, mine)))
