"""MPI's chapter on groups of processes."""

from collections.abc import Iterable

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers, number_type
from shmcoll.mpi.objects.communicators import PROC_NULL, UNDEFINED, Group
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import GROUP
from shmcoll.mpi.process import PROCESS

EMPTY = c["MPI_GROUP_EMPTY"]
IDENT, SIMILAR, UNEQUAL = c["MPI_IDENT"], c["MPI_SIMILAR"], c["MPI_UNEQUAL"]


def made(ranks: Iterable[int]) -> Group:
    """Return a new group; the empty one of MPI if there are no ranks."""
    group = Group(tuple(ranks))
    if not group.size:
        return GROUP.find(EMPTY)
    GROUP.add(group)
    return group


def chosen(group: Group, places: list[int]) -> list[int]:
    """Return the ranks at some places of a group.

    Raises:
        MPIError: a place is not in the group, or is there twice.
    """
    if len(set(places)) != len(places):
        raise MPIError("MPI_ERR_RANK", f"ranks {places} are not different")
    return [group.member(place) for place in places]


def compared(first: Group, second: Group) -> int:
    """Return MPI_IDENT, MPI_SIMILAR (another order) or MPI_UNEQUAL."""
    if first.ranks == second.ranks:
        return IDENT
    return SIMILAR if sorted(first.ranks) == sorted(second.ranks) else UNEQUAL


@mpi()
def Group_size(group: Group) -> int:
    return group.size


@mpi()
def Group_rank(group: Group) -> int:
    return group.place(PROCESS.rank)


@mpi(inout=("ranks2",))
def Group_translate_ranks(group: Group, n: int, places: Numbers, other: Group, result: Numbers) -> None:
    given = places.read(n)
    result.write(PROC_NULL if place == PROC_NULL else other.place(group.member(place)) for place in given)


@mpi()
def Group_compare(first: Group, second: Group) -> int:
    return compared(first, second)


@mpi()
def Group_union(first: Group, second: Group) -> Group:
    return made((*first.ranks, *(rank for rank in second.ranks if first.place(rank) == UNDEFINED)))


@mpi()
def Group_intersection(first: Group, second: Group) -> Group:
    return made(rank for rank in first.ranks if second.place(rank) != UNDEFINED)


@mpi()
def Group_difference(first: Group, second: Group) -> Group:
    return made(rank for rank in first.ranks if second.place(rank) == UNDEFINED)


@mpi()
def Group_incl(group: Group, n: int, places: Numbers) -> Group:
    return made(chosen(group, places.read(n)))


@mpi()
def Group_excl(group: Group, n: int, places: Numbers) -> Group:
    left_out = set(chosen(group, places.read(n)))
    return made(rank for rank in group.ranks if rank not in left_out)


@mpi()
def Group_range_incl(group: Group, n: int, ranges: int) -> Group:
    return made(chosen(group, _places(n, ranges)))


@mpi()
def Group_range_excl(group: Group, n: int, ranges: int) -> Group:
    left_out = set(chosen(group, _places(n, ranges)))
    return made(rank for rank in group.ranks if rank not in left_out)


@mpi(inout=("group",))
def Group_free(group: Numbers) -> None:
    obj = GROUP.find(group.value)
    if group.value != EMPTY:
        GROUP.remove(obj)
    group.value = GROUP.null


def _places(n: int, ranges: int) -> list[int]:
    """Return the places that triples of first, last and stride name."""
    words = Numbers(number_type("int"), ranges).read(3 * n)
    places: list[int] = []
    for first, last, stride in zip(words[::3], words[1::3], words[2::3], strict=True):
        if stride == 0:
            raise MPIError("MPI_ERR_ARG", f"the range from {first} to {last} has stride 0")
        places += range(first, last + (1 if stride > 0 else -1), stride)
    return places
