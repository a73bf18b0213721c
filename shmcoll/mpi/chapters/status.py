"""MPI's chapter on messages: what a program writes into a status, and reads from it, by functions."""

from shmcoll.mpi.objects import status as statuses
from shmcoll.mpi.objects.functions import mpi


def _functions(name: str) -> None:
    """Register the two functions for a field."""

    @mpi(name=f"Status_get_{name}")
    def get(status: int) -> int:
        value: int = getattr(statuses.at(status), name)
        return value

    @mpi(name=f"Status_set_{name}")
    def set_field(status: int, value: int) -> None:
        told = statuses.at(status)
        setattr(told, name, value)
        told.store(status, with_error=True)


for _name in ("source", "tag", "error"):
    _functions(_name)


@mpi()
def Status_set_cancelled(status: int, flag: int) -> None:
    told = statuses.at(status)
    told.is_cancelled = bool(flag)
    told.store(status, with_error=True)
