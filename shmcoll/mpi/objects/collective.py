"""A collective of MPI in its three forms: `MPI_X`, `MPI_Ix` and `MPI_X_init`.

A collective is described once, by a function of its arguments in C up to the communicator. It checks them, and returns
what performs the call: a function without arguments, which makes calls of `comm.native`. The blocking form performs it
at once, as one collective of the communicator; the others have the communicator's worker perform it in its turn. A
persistent one is described once, and performed at each start.
"""

from collections.abc import Callable
from typing import Any

from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.requests import PersistentRequest, Request, WorkRequest, added

Perform = Callable[[], None]
Describe = Callable[..., Perform]


def collective(*, nullable: tuple[str, ...] = (), inout: tuple[str, ...] = ()) -> Callable[[Describe], Describe]:
    """Register the three forms of a collective. Its last argument is the communicator."""

    def register(describe: Describe) -> Describe:
        name = describe.__name__
        options: dict[str, Any] = {"nullable": nullable, "inout": inout}

        @mpi(name=name, **options)
        def blocking(*arguments: Any) -> None:
            comm: Comm = arguments[-1]
            comm.native._dispatcher.worker.alone(name, describe(*arguments))

        @mpi(name=f"I{name.lower()}", **options)
        def nonblocking(*arguments: Any) -> Request:
            return added(WorkRequest(arguments[-1], submitted(arguments[-1], describe(*arguments))))

        @mpi(name=f"{name}_init", **options)
        def persistent(*arguments: Any) -> Request:
            *own, _info = arguments
            perform = describe(*own)
            return added(PersistentRequest(own[-1], lambda: WorkRequest(own[-1], submitted(own[-1], perform))))

        return describe

    return register


def submitted(comm: Comm, perform: Perform) -> Any:
    """Return the `Work` of a call that the worker of a communicator makes."""
    return comm.native._dispatcher.worker.submit(perform)
