"""Which ranks take part: `ReplicaGroup`, and the communicator in which this rank's list runs.

The list of all ranks in ascending order runs in the communicator of the job. Any other list gets a communicator of its
own at its first call, in which a rank's number is its position in the list. Its members alone make it: `subgroup` gives
the group of these ranks, and `split` of that group renumbers them. The group of `subgroup` itself is not used, because
the program can have the same one, and may close it. Members that pass different lists get `CollectiveMismatch` or
`ValueError` where the lists have the same ranks, and `CollectiveTimeout` otherwise.

Communicators are kept for the life of the process, one for each different list. So groups that are made anew for every
step cost nothing after the first. A rank can lead 1,015 groups (see `docs/reference/limits.md`); a list beyond that
raises `ArenaError` on all its members.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

import shmcoll
from shmcoll.communicator import Communicator


class rg_partition_op(Enum):  # NKI's name
    """How `ReplicaGroup.from_partition_op` computes the list of a rank from the rank and the operand."""

    bitwise_and = "bitwise_and"
    div = "div"
    mod = "mod"


_PARTITIONS = {
    rg_partition_op.bitwise_and: int.__and__,
    rg_partition_op.div: int.__floordiv__,
    rg_partition_op.mod: int.__mod__,
}


class ReplicaGroup:
    """The ranks that take part, such as `ReplicaGroup([[0, 1], [2, 3]])`.

    The collective runs in each rank-list independently. The lists may have any ranks of the job, in any order, and need
    not be of equal length. Groups of the same lists are equal.

    Args:
        rank_lists: a list of lists of ranks. A rank's position in its list is its column in the metadata, and its
            place in what is gathered.

    Raises:
        TypeError: `rank_lists` is not a list of lists of integers.
        ValueError: a list is empty, or a rank is negative or named twice.
    """

    __slots__ = ("_joined", "_lists")

    def __init__(self, rank_lists: Sequence[Sequence[int]]):
        if not isinstance(rank_lists, (list, tuple)):
            raise TypeError(f"ReplicaGroup: expected a list of rank-lists, got {type(rank_lists).__name__}")
        if not rank_lists:
            raise ValueError("ReplicaGroup: expected at least one rank-list, got none")
        named: set[int] = set()
        for ranks in rank_lists:
            if not isinstance(ranks, (list, tuple)):
                raise TypeError(f"ReplicaGroup: a rank-list must be a list of ranks, got {type(ranks).__name__}")
            if not ranks:
                raise ValueError("ReplicaGroup: a rank-list is empty")
            for rank in ranks:
                if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)):
                    raise TypeError(f"ReplicaGroup: a rank must be an integer, got {type(rank).__name__}")
                if rank < 0:
                    raise ValueError(f"ReplicaGroup: a rank must not be negative, got {rank}")
                if rank in named:
                    raise ValueError(f"ReplicaGroup: rank {rank} is named twice; rank-lists must not overlap")
                named.add(int(rank))
        self._lists = tuple(tuple(map(int, ranks)) for ranks in rank_lists)
        self._joined: tuple[Communicator, int] | None = None  # see `joined`, after the first call

    @staticmethod
    def from_partition_op(world_size: int, op: rg_partition_op, operand: int) -> "ReplicaGroup":
        """Divide the ranks 0 to `world_size` - 1: ranks with the same `op(rank, operand)` share a list.

        Args:
            world_size: the number of ranks.
            op: a member of `rg_partition_op`: `bitwise_and`, `div` (contiguous lists) or `mod` (strided lists).
            operand: the second operand of `op`.

        Raises:
            TypeError: `op` is not an `rg_partition_op`, or another argument is not an integer.
            ValueError: `world_size` is not positive, or the operand is negative, or is 0 for `div` or `mod`.

        Example:
            >>> ReplicaGroup.from_partition_op(8, rg_partition_op.mod, 4)
            ReplicaGroup([[0, 4], [1, 5], [2, 6], [3, 7]])
        """
        where = "ReplicaGroup.from_partition_op"
        if not isinstance(op, rg_partition_op):
            raise TypeError(f"{where}: op must be a member of rg_partition_op, got {op!r}")
        for what, value in (("world_size", world_size), ("operand", operand)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise TypeError(f"{where}: {what} must be an integer, got {type(value).__name__}")
        if world_size < 1:
            raise ValueError(f"{where}: world_size must be positive, got {world_size}")
        if operand < 0 or (operand == 0 and op is not rg_partition_op.bitwise_and):
            raise ValueError(f"{where}: {op.name} has no operand {operand}")
        lists: dict[int, list[int]] = {}
        for rank in range(world_size):
            lists.setdefault(_PARTITIONS[op](rank, int(operand)), []).append(rank)
        return ReplicaGroup(list(lists.values()))

    @property
    def rank_lists(self) -> list[list[int]]:
        """The rank-lists, as new lists."""
        return [list(ranks) for ranks in self._lists]

    @property
    def _value(self) -> list[list[int]]:
        """The rank-lists by the name that adapters of other libraries read."""
        return self.rank_lists

    def __eq__(self, other: object) -> bool:
        return self._lists == other._lists if isinstance(other, ReplicaGroup) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._lists)

    def __repr__(self) -> str:
        return f"ReplicaGroup({self.rank_lists})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ReplicaGroup, (self.rank_lists,)


def communicator(group: ReplicaGroup, operation: str) -> Communicator:
    """Return the communicator of this rank's list, in which a rank's number is its position. Raises as `joined`."""
    return joined(group, operation)[0]


def joined(group: ReplicaGroup, operation: str) -> tuple[Communicator, int]:
    """Return the communicator of this rank's list, in which a rank's number is its position, and its size.

    Raises:
        TypeError: `group` is not a `ReplicaGroup`.
        ValueError: a rank does not exist, or this rank is in no list.
    """
    try:
        known = group._joined
    except AttributeError:
        name = type(group).__name__
        raise TypeError(
            f"{operation}: replica_group must be a ReplicaGroup, got {name}; write ReplicaGroup([[0, 1]]) for ranks 0 "
            f"and 1"
        ) from None
    return known or _join(group, operation)


_communicators: dict[tuple[int, ...], Communicator] = {}


def _join(group: ReplicaGroup, operation: str) -> tuple[Communicator, int]:
    world = shmcoll.init()
    beyond = [rank for ranks in group._lists for rank in ranks if rank >= world.size]
    if beyond:
        raise ValueError(
            f"{operation}: {group} names rank {max(beyond)}, but the job has {world.size} ranks; start more: "
            f"shmrun -n {max(beyond) + 1} program.py"
        )
    mine = next((ranks for ranks in group._lists if world.rank in ranks), None)
    if mine is None:
        raise ValueError(f"{operation}: rank {world.rank} is in no rank-list of {group}, so it must not call")
    comm = world
    if mine != tuple(range(world.size)):
        if mine not in _communicators:
            members = world if len(mine) == world.size else world.subgroup(mine)
            made = members.split(0, key=mine.index(world.rank))
            if made is None or made.ranks != list(mine):
                raise ValueError(f"{operation}: the ranks of {list(mine)} have passed them in different orders")
            _communicators[mine] = made
        comm = _communicators[mine]
    group._joined = comm, comm.size
    return group._joined
