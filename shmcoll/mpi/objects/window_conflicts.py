"""Find accesses to a window that conflict: `shmrun --check`, SHMCOLL_CHECK=1.

Between two fences the order of accesses is not defined. So two of them may use the same bytes of a target only if both
read, or if both accumulate. Each rank notes its accesses of such an epoch. The fence that ends the epoch exchanges the
notes, and all ranks find the same conflict in them.

Accesses in epochs of locks, or of MPI_Win_start, are not looked at, and neither are loads and stores of the owner.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from shmcoll.diagnostics.call_site import at_site
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError

_MOST = 10_000  # runs of bytes that a rank notes in an epoch


@dataclass(frozen=True)
class Access:
    """Runs of bytes of a target that a rank has accessed. call: the operation, and its line."""

    operation: str
    call: str
    target: int
    firsts: list[int]
    ends: list[int]

    @property
    def kind(self) -> str:
        """What may be done to the same bytes at the same time: the operation itself, or any accumulation."""
        return self.operation if self.operation in ("MPI_Get", "MPI_Put") else "accumulate"


class Conflicts:
    """The accesses of one rank in an epoch that fences begin and end."""

    def __init__(self) -> None:
        self._accesses: list[Access] = []
        self._number = 0

    def note(self, operation: str, target: int, start: int, count: int, datatype: Datatype) -> None:
        """Note an access to elements that begin `start` bytes behind the beginning of a target's memory."""
        runs = datatype.runs.as_bytes().blocks(datatype.extent, np.array([count]), np.array([start]))
        self._number += len(runs.offsets)
        if self._number <= _MOST:
            ends = (runs.offsets + runs.lengths).tolist()
            call = f"{operation}{at_site()}"
            self._accesses.append(Access(operation, call, target, runs.offsets.tolist(), ends))

    def exchange(self, native: Any, window: str) -> None:
        """End the epoch, with all ranks.

        Raises:
            MPIError: two accesses conflict.
        """
        mine, self._accesses, self._number = self._accesses, [], 0
        told = [(rank, one) for rank, all_of_it in enumerate(native.all_gather_object(mine)) for one in all_of_it]
        for target in range(native.size):
            there = [(rank, one) for rank, one in told if one.target == target]
            if found := _first_conflict(there):
                (rank, one), (other, another), (first, end) = found
                raise MPIError(
                    "MPI_ERR_RMA_CONFLICT",
                    f"rank {rank}'s {one.call} and rank {other}'s {another.call} use bytes {first} to {end} of rank "
                    f"{target} in {window} between the same two fences",
                )


_Told = tuple[int, Access]


def _first_conflict(told: list[_Told]) -> tuple[_Told, _Told, tuple[int, int]] | None:
    """Return two accesses that conflict, the one of the lower rank first, and the bytes that both use."""
    runs = sorted(
        (first, end, i) for i, (_, one) in enumerate(told) for first, end in zip(one.firsts, one.ends, strict=True)
    )
    last: dict[str, list[tuple[int, int]]] = {}  # of each kind, the runs of two accesses that end last
    for first, end, i in runs:
        kind = told[i][1].kind
        for other, kept in last.items():
            for its_end, j in kept:
                if its_end > first and j != i and (kind == "MPI_Put" or other != kind):
                    one, another = sorted((i, j))
                    return told[one], told[another], (first, min(end, its_end))
        ends = {j: its_end for its_end, j in last.get(kind, [])}
        ends[i] = max(end, ends.get(i, 0))
        last[kind] = sorted(((its_end, j) for j, its_end in ends.items()), reverse=True)[:2]
    return None
