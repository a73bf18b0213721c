"""shrink over nodes: the survivors of a failure go on in a new job. It needs an MPI that goes on when a rank has died:
Open MPI, started with `mpiexec --with-ft ulfm`.

    0. MPI_Comm_create_group  when a group of some ranks is made, from that of its parent, in which nobody has died: an
                              MPI communicator of these ranks, for step 1
    1. MPI_Comm_shrink        MPI's own agreement on the ranks that live, and a communicator of them
    2. joining                the survivors join on it as the ranks of a new job do (`startup/several_nodes.py`): in new
                              arenas, numbered anew in their old order

The old job stays as it is until the end of the process, because MPI may still write its memory. Its groups raise why
they have ended; those without a rank that has died go on.

Why nobody waits forever. Step 0 returns an error to the members if one of them dies. Step 1 blocks, in a thread of its
own (Open MPI's MPI_Comm_ishrink fails). A survivor waits for it for `timeout` seconds; a later call waits for the same
agreement. If a rank dies in step 2, MPI returns an error to those that need it. They revoke the new communicator, so
that all its calls return, and every survivor raises `RankFailed`. Then `shrink` can be called again.

Source: W. Bland et al., "Post-failure recovery of MPI communication capability", IJHPCA 27(3), 2013; MPI 5.0,
"Process fault tolerance".
"""

import contextlib
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from shmcoll.diagnostics.describe_timeout import timed_out, with_advice
from shmcoll.errors import CollectiveTimeout, RankFailed

if TYPE_CHECKING:
    from shmcoll.communicator import Communicator


def shrink(comm: Any) -> "Communicator":
    """Return the group of the ranks of a group that live. All of them call it."""
    d, job = comm._dispatcher, comm._job
    d.check_open("shrink")
    if not job.wire.survives:
        raise NotImplementedError(
            f"shrink on rank {d.failures.name}: this MPI does not go on after a rank has died. Use Open MPI and "
            f"mpiexec --with-ft ulfm; or start the program again, or use comm.node.shrink() for the ranks of this node"
        )
    d.progress.look()
    if d.failures.ended is None and not d.inner._dispatcher.group.has_ended():
        raise ValueError(
            f"shrink on rank {d.failures.name}: no rank has failed; use split or subgroup for a part of the ranks"
        )
    mpi, survivors = job.wire.mpi, None
    try:
        survivors = _agree(comm)
        return job.join_again(survivors)
    except mpi.Exception as error:
        if survivors is not None:
            with contextlib.suppress(mpi.Exception):
                survivors.Revoke()
        raise RankFailed(
            f"shrink on rank {d.failures.name}: another rank has died meanwhile ({error}); call shrink again",
            operation="shrink",
        ) from None


def _agree(comm: Any) -> Any:
    """Return MPI's communicator of the survivors."""
    job, d = comm._job, comm._dispatcher
    if comm.shrinking is None:
        comm.shrinking = Future()
        # A daemon: the process may end while MPI still waits in it for a rank that does not come
        threading.Thread(target=_shrink, args=(comm.mpi_comm, comm.shrinking), daemon=True).start()
    shrinking = comm.shrinking
    try:
        survivors = shrinking.result(comm.timeout)
    except TimeoutError:
        text = timed_out(f"shrink on rank {d.failures.name}", comm.timeout, "a rank that lives has not called it")
        raise CollectiveTimeout(with_advice(text, ", and call shrink again")) from None
    finally:
        if shrinking.done():
            comm.shrinking = None
    survivors.Set_errhandler(job.wire.mpi.ERRORS_RETURN)
    return survivors


def _shrink(comm: Any, shrinking: "Future[Any]") -> None:
    try:
        shrinking.set_result(comm.Shrink())
    except BaseException as error:
        shrinking.set_exception(error)
