"""Memory and communicators that two calls, two threads or two ranks use at once; messages that race."""

import threading
from typing import Any

import numpy as np

import shmcoll
from shmcoll.errors import BufferChanged, CallNotAllowed, RankFailed
from tests.errors_of_programs.programs import X, is_odd, program
from tests.support import switches
from tests.support.waiting import until

LOCAL, RACE = "local concurrency", "message race"


def pending(comm: Any, submit: Any, change: Any) -> None:
    """Change something while a call is pending for sure: the worker is busy."""
    released = threading.Event()
    held = switches.keep_worker_busy(comm, released.wait)
    work = submit()
    change()
    released.set()
    held.wait()
    work.wait()


@program(
    LOCAL, odd=(BufferChanged, "all_reduce at HERE on rank 1: x was changed while the call was pending"), check=True
)
def operand_of_a_collective(comm: Any, wrong: bool) -> None:
    x = X.copy()
    pending(comm, lambda: comm.all_reduce(x, async_op=True), lambda: x.fill(7) if is_odd(comm, wrong) else None)


@program(
    LOCAL, odd=(BufferChanged, "all_reduce at HERE on rank 1: out was changed while the call was pending"), check=True
)
def result_of_a_collective(comm: Any, wrong: bool) -> None:
    out = np.zeros(8)
    pending(
        comm, lambda: comm.all_reduce(X, out=out, async_op=True), lambda: out.fill(7) if is_odd(comm, wrong) else None
    )


@program(LOCAL, odd=(BufferChanged, "send at HERE on rank 1: x was changed while the call was pending"), check=True)
def sent_array(comm: Any, wrong: bool) -> None:
    x = X.copy()
    if comm.rank == 1:
        pending(comm, lambda: comm.send(x, 0, synchronous=True, async_op=True), lambda: x.fill(7) if wrong else None)
    elif comm.rank == 0:
        comm.recv(source=1)


@program(LOCAL, odd=(BufferChanged, "recv at HERE on rank 1: out was changed while the call was pending"), check=True)
def receiving_array(comm: Any, wrong: bool) -> None:
    out = np.zeros(8)
    if comm.rank == 1:
        work = comm.recv(out, source=0, async_op=True)
        if wrong:
            out[0] = 7
    comm.barrier()
    if comm.rank == 0:
        comm.send(X, 1)
    elif comm.rank == 1:
        work.wait()


@program(
    LOCAL,
    odd=(BufferChanged, "recv at HERE on rank 1: an array was used by recv at HERE, which was pending, too"),
    check=True,
)
def two_receives_into_one_array(comm: Any, wrong: bool) -> None:
    outs = np.zeros((2, 8))
    if comm.rank == 1:
        works = [comm.recv(outs[0 if wrong else i], source=2 * i, async_op=True) for i in range(2)]
    comm.barrier()
    if comm.rank != 1:
        comm.send(X, 1)
    else:
        works[0].wait()
        works[1].wait()


@program(
    LOCAL,
    odd=(BufferChanged, "send at HERE on rank 1: an array was used by recv at HERE, which was pending, too"),
    check=True,
)
def a_receive_and_a_send_of_one_array(comm: Any, wrong: bool) -> None:
    arrays = np.zeros((2, 8))
    if comm.rank == 1:
        receive = comm.recv(arrays[0], source=0, async_op=True)
        send = comm.send(arrays[0 if wrong else 1], 0, synchronous=True, async_op=True)
    comm.barrier()
    if comm.rank == 0:
        comm.send(X, 1)
        comm.recv(source=1)
    elif comm.rank == 1:
        receive.wait()
        send.wait()


@program(
    LOCAL,
    odd=(
        CallNotAllowed,
        "all_reduce at HERE on rank 1: thread .* is in all_reduce of the same communicator, called at HERE.*comm.dup",
    ),
)
def threads(comm: Any, wrong: bool) -> None:
    """A thread is in a collective, for which the other ranks come when the main thread has called another one."""
    refused = None
    with comm.dup() as own, comm.dup() as signs:
        if comm.rank == 1:
            thread = threading.Thread(target=lambda: comm.all_reduce(X))
            thread.start()
            try:
                until(lambda: switches.is_asleep(comm, 1))
                if wrong:
                    comm.all_reduce(X)
            except CallNotAllowed as error:
                refused = error
        signs.barrier()
        if comm.rank != 1:
            comm.all_reduce(X)
        else:
            thread.join()
        own.all_reduce(X)
    if refused:
        raise refused


@program(
    RACE,
    ranks={0: (RankFailed, r"recv\(source=1, tag=ANY\) on rank 0.*rank 1 has closed the group at ")},
)
def any_source_takes_the_message_of_another_receive(comm: Any, wrong: bool) -> None:
    if comm.rank == 1:
        comm.send(X, 0)
    comm.barrier()
    if comm.rank == 2:
        comm.send(X, 0)
    elif comm.rank == 0:
        comm.recv(source=shmcoll.ANY if wrong else 2)
        comm.recv(source=1)


@program(
    RACE,
    ranks={
        0: (TypeError, r"recv\(source=1, tag=ANY\) on rank 0: the next message, from rank 1 with tag 6, is an object")
    },
    lines=("rank 0.*: messages were never received: from rank 1: 1 with tag 6, 1 with tag 5",),
)
def any_tag_takes_the_message_of_another_receive(comm: Any, wrong: bool) -> None:
    if comm.rank == 1:
        comm.send_object("text", 0, tag=6)
        comm.send(X, 0, tag=5)
    comm.barrier()
    if comm.rank == 0:
        comm.recv(source=1, tag=shmcoll.ANY if wrong else 5)
        comm.recv_object(source=1, tag=6)
