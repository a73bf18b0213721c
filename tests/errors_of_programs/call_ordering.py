"""Calls in an order in which they cannot meet."""

from typing import Any

import shmcoll
from shmcoll.errors import CollectiveMismatch, CollectiveTimeout, Deadlock, RankFailed
from tests.errors_of_programs.programs import X, is_odd, program

KIND = "call ordering"


@program(
    KIND, everyone=(CollectiveMismatch, r"ranks 0, 2 called all_reduce.* at HERE; rank 1 called barrier\(\) at HERE")
)
def other_calls(comm: Any, wrong: bool) -> None:
    comm.barrier() if is_odd(comm, wrong) else comm.all_reduce(X)
    comm.all_reduce(X) if is_odd(comm, wrong) else comm.barrier() if wrong else comm.all_reduce(X)


@program(KIND, everyone=(CollectiveMismatch, r"rank 1 called barrier\(\) at HERE"))
def asynchronous_calls(comm: Any, wrong: bool) -> None:
    calls = [lambda: comm.all_reduce(X, async_op=True), lambda: comm.barrier(async_op=True)]
    shmcoll.wait_all([call() for call in (reversed(calls) if is_odd(comm, wrong) else calls)])


@program(KIND, everyone=(CollectiveMismatch, r"ranks 0, 2 called split\(\) at HERE; rank 1 called barrier\(\) at HERE"))
def a_call_of_several_parts(comm: Any, wrong: bool) -> None:
    if is_odd(comm, wrong):
        comm.barrier()
    else:
        comm.split(0).close()


@program(
    KIND,
    others=(RankFailed, r"barrier #\d+ on rank [02].*rank 1 has closed the group at "),
)
def missing_call(comm: Any, wrong: bool) -> None:
    if not is_odd(comm, wrong):
        comm.barrier()


@program(KIND, others=(RankFailed, r"all_reduce #4 on rank [02].*rank 1 has closed the group at HERE"))
def fewer_iterations(comm: Any, wrong: bool) -> None:
    for _ in range(3 if is_odd(comm, wrong) else 4):
        comm.all_reduce(X)
    comm.close()


@program(
    KIND,
    everyone=(
        Deadlock,
        r"ranks 0, 1, 2 wait for one another: rank 0 in recv\(source=1, tag=ANY\) at HERE; rank 1 in .* at HERE",
    ),
)
def receives_in_a_circle(comm: Any, wrong: bool) -> None:
    after, before = (comm.rank + 1) % 3, (comm.rank - 1) % 3
    if wrong:
        comm.recv(source=after)
        comm.send(X, before)
    else:
        comm.send(X, before)
        comm.recv(source=after)


@program(
    KIND,
    ranks=dict.fromkeys(
        (0, 1), (Deadlock, r"ranks 0, 1 wait for one another: rank 0 in recv.* at HERE; rank 1 in recv.*HERE")
    ),
)
def two_receives(comm: Any, wrong: bool) -> None:
    if comm.rank == 2:
        return
    other = 1 - comm.rank
    if wrong or comm.rank == 0:
        comm.recv(source=other)
        comm.send(X, other)
    else:
        comm.send(X, other)
        comm.recv(source=other)


@program(
    KIND,
    ranks={
        0: (
            CollectiveTimeout,
            r"send\(dest=1, tag=0\).* at HERE: timed out.*rank 1 has not begun to receive this synchronous",
        ),
        1: (
            CollectiveTimeout,
            r"send\(dest=0, tag=0\).*rank 0 has not begun to receive this synchronous message|rank 1 has not",
        ),
    },
    limit=0.3,
)
def synchronous_sends(comm: Any, wrong: bool) -> None:
    if comm.rank == 2:
        return
    other = 1 - comm.rank
    if not wrong and comm.rank == 0:
        comm.recv(source=other)
    comm.send(X, other, synchronous=True)
    if wrong or comm.rank == 1:
        comm.recv(source=other)


CIRCLE = r"ranks 0, 1 wait for one another: rank 0 in recv\(source=1, tag=ANY\) at HERE; rank 1 in barrier #1 at HERE"


@program(KIND, ranks={0: (Deadlock, CIRCLE), 1: (Deadlock, CIRCLE), 2: (RankFailed, CIRCLE)})
def a_receive_and_a_collective(comm: Any, wrong: bool) -> None:
    if comm.rank == 1 and not wrong:
        comm.send(X, 0)
    if comm.rank == 0:
        comm.recv(source=1)
    comm.barrier()
    if comm.rank == 1 and wrong:
        comm.send(X, 0)


@program(KIND, everyone=(CollectiveTimeout, "rank [01]"), limit=0.3)
def a_synchronous_send_and_a_collective(comm: Any, wrong: bool) -> None:
    if comm.rank == 0:
        comm.send(X, 1, synchronous=True)
    if comm.rank == 1 and not wrong:
        comm.recv(source=0)
    comm.barrier()
    if comm.rank == 1 and wrong:
        comm.recv(source=0)


@program(
    KIND,
    everyone=(
        CollectiveTimeout,
        r"rank 0 has not begun to receive this synchronous message|rank 1 did not arrive|had waited",
    ),
    limit=0.3,
)
def a_synchronous_send_to_a_posted_receive_behind_a_collective(comm: Any, wrong: bool) -> None:
    with comm.dup() as other:
        messages = comm if wrong else other
        if comm.rank == 0:
            work = messages.recv(source=1, async_op=True)
        elif comm.rank == 1:
            messages.send(X, 0, synchronous=True)
        comm.barrier()
        if comm.rank == 0:
            work.wait()


@program(KIND, everyone=(CollectiveTimeout, r"barrier #\d+ on rank [012].*did not arrive|timed out"), limit=0.3)
def groups_in_another_order(comm: Any, wrong: bool) -> None:
    with comm.dup() as other:
        other.timeout = comm.timeout
        first, second = (other, comm) if is_odd(comm, wrong) else (comm, other)
        first.barrier()
        second.barrier()


@program(KIND, ranks={1: (RankFailed, r"recv\(source=0, tag=ANY\) on rank 1.*rank 0 has closed the group")})
def missing_send(comm: Any, wrong: bool) -> None:
    if comm.rank == 0 and not wrong:
        comm.send(X, 1)
    elif comm.rank == 1:
        comm.recv(source=0)


@program(
    KIND,
    ranks={0: (RankFailed, r"send\(dest=1, tag=0\) on rank 0.*rank 1 has closed the group")},
    lines=("rank 1.*: messages were never received: from rank 0: 1 with tag 0",),
)
def missing_receive(comm: Any, wrong: bool) -> None:
    if comm.rank == 0:
        work = comm.send(X, 1, synchronous=True, async_op=True)
    comm.barrier()  # the worker has sent the message before
    if comm.rank == 0:
        work.wait()
    elif comm.rank == 1 and not wrong:
        comm.recv(source=0)


@program(
    KIND, odd=(ValueError, r"recv\(source=1, tag=ANY\) on rank 1: no message that this rank has sent to itself fits")
)
def from_itself(comm: Any, wrong: bool) -> None:
    if comm.rank == 1:
        if not wrong:
            comm.send(X, 1)
        comm.recv(source=1)
