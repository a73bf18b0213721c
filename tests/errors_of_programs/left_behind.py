"""Requests that are not completed, and what a program leaves behind."""

from typing import Any

import numpy as np

import shmcoll
from shmcoll.errors import Cancelled, RankFailed
from tests.errors_of_programs.programs import X, is_odd, program

REQUEST, LEAK = "request lifecycle", "resource leak"


@program(REQUEST, lines=("rank 1.*: the program has not waited for asynchronous calls: HERE",), check=True)
def missing_wait_for_a_collective(comm: Any, wrong: bool) -> None:
    work = comm.all_reduce(X, async_op=True)
    if not is_odd(comm, wrong):
        work.wait()


@program(REQUEST, lines=("rank 1.*: the program has not waited for asynchronous calls: HERE",), check=True)
def missing_wait_for_a_receive(comm: Any, wrong: bool) -> None:
    if comm.rank == 0:
        comm.send(X, 1)
    elif comm.rank == 1:
        work = comm.recv(source=0, async_op=True)
        if not wrong:
            shmcoll.wait_all([work])
    comm.barrier()


@program(REQUEST, lines=("rank 1.*: the program has not waited for asynchronous calls: HERE",), check=True)
def missing_wait_for_a_send(comm: Any, wrong: bool) -> None:
    if comm.rank == 0:
        comm.recv(source=1)
    elif comm.rank == 1:
        work = comm.send(X, 0, async_op=True)
        while not wrong and not work.test():
            pass


@program(REQUEST, lines=("rank 1.*: the program has not waited for asynchronous calls: HERE",), check=True)
def missing_wait_for_a_plan(comm: Any, wrong: bool) -> None:
    work = comm.plan("all_reduce", X, out=np.empty(8)).start()
    if not is_odd(comm, wrong):
        work.wait()


@program(REQUEST, others=(RankFailed, r"all_reduce #\d+ on rank [02].*rank 1 has closed the group"))
def missing_start(comm: Any, wrong: bool) -> None:
    plan = comm.plan("all_reduce", X, out=np.empty(8))
    if not is_odd(comm, wrong):
        plan.start().wait()


@program(REQUEST, odd=(Cancelled, "recv: this receive was withdrawn before its message arrived"))
def wait_for_a_withdrawn_receive(comm: Any, wrong: bool) -> None:
    if comm.rank == 1:
        work = comm.recv(source=0, async_op=True)
        if wrong:
            work.cancel()
    comm.barrier()
    if comm.rank == 0 and not wrong:
        comm.send(X, 1)
    elif comm.rank == 1:
        work.wait()


@program(
    LEAK,  # rank 1 leaves first, or rank 0 does
    lines=(
        "rank 1 withdraws receives without a message: HERE"
        "|an asynchronous call of rank 1 at HERE has failed.*rank 0 has closed the group",
    ),
)
def receive_without_a_message(comm: Any, wrong: bool) -> None:
    if comm.rank == 1:
        work = comm.recv(source=0, async_op=True)
    comm.barrier()
    if comm.rank == 0 and not wrong:
        comm.send(X, 1)
    elif comm.rank == 1 and not wrong:
        work.wait()


@program(
    LEAK,
    lines=(
        "rank 1.*: messages were never received: from rank 0: 2 with tag 7; from rank 2: 1 with tag 0.*SHMCOLL_CHECK=1",
    ),
)
def message_never_received(comm: Any, wrong: bool) -> None:
    if comm.rank == 0:
        comm.send(X, 1, tag=7)
        comm.send_object("text", 1, tag=7)
    elif comm.rank == 2:
        comm.send(X, 1, async_op=True).wait()
    elif not wrong:
        comm.recv(source=0, tag=7)
        comm.recv_object(source=0)
        comm.recv(source=2)
    comm.barrier()


@program(
    LEAK,
    lines=(
        "rank 1.*: messages were never received: from rank 0: 2 with tag 7",
        r"rank 0.*: rank 1 has never received send\(dest=1, tag=7\) at HERE",
    ),
    check=True,
)
def message_never_received_and_its_sender(comm: Any, wrong: bool) -> None:
    if comm.rank == 0:
        for _ in range(3):
            comm.send(X, 1, tag=7)
    elif comm.rank == 1:
        for _ in range(1 if wrong else 3):
            comm.recv(source=0, tag=7)
    comm.barrier()


@program(LEAK, others=(RankFailed, r"all_reduce #\d+ on rank [02].*: rank 1 has closed the group at HERE"))
def group_closed_while_others_use_it(comm: Any, wrong: bool) -> None:
    if is_odd(comm, wrong):
        comm.close()
    else:
        comm.all_reduce(X)
