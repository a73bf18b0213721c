"""An exception while a routine or a kernel is first loaded: nothing has been sent, so the group goes on."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.engine.compiler import compile as code
from tests.support.calls import SHORT

pytestmark = pytest.mark.slow


def messages(comm) -> None:
    comm.send(np.ones(2), 1 - comm.rank)
    comm.recv(source=1 - comm.rank)  # after a retry there are more messages than receives


def long_messages_both_ways(comm) -> None:
    comm.sendrecv(np.ones(100_000), 1 - comm.rank)


def object_messages(comm) -> None:
    comm.send_object("one", 1 - comm.rank)
    assert comm.recv_object()[0] == "one"


def batch(comm) -> None:
    for work in comm.batch([shmcoll.Recv(), shmcoll.Send(np.ones(2), 1 - comm.rank)]):
        work.wait(20)


def posted(comm) -> None:
    comm.send(np.ones(2), 1 - comm.rank)
    comm.recv(async_op=True).wait(20)


def posted_object(comm) -> None:
    comm.send_object("one", 1 - comm.rank)
    comm.recv_object(async_op=True).wait(20)


def broadcast_object(comm) -> None:
    assert comm.broadcast_object(np.ones(10_000) if comm.rank == 0 else None).size == 10_000


def gather_object(comm) -> None:
    assert (comm.gather_object(np.full(10_000, comm.rank)) is None) == bool(comm.rank)


def all_gather_object(comm) -> None:
    assert len(comm.all_gather_object(comm.rank)) == 2


def scatter_object(comm) -> None:
    comm.scatter_object(["a", "b"] if comm.rank == 0 else None)


def views(comm) -> None:
    comm.views(comm.zeros(3))


def split(comm) -> None:
    comm.split(0).close()


def plan(comm) -> None:
    comm.plan("all_reduce", np.ones(2))()


def exchange(comm) -> None:
    comm.grid(2).exchange(np.ones(8))


def later(comm) -> None:
    comm.all_reduce(np.ones(2), async_op=True).wait(20)


def jitted(comm) -> None:
    assert comm.handle.size


OTHERS = (
    messages, long_messages_both_ways, object_messages, batch, posted, posted_object, broadcast_object, gather_object,
    all_gather_object, scatter_object, views, split, plan, exchange, later, jitted,
)  # fmt: skip
CALLS: dict[str, Callable[[Any], None]] = {**SHORT, **{call.__name__: call for call in OTHERS}}


@contextlib.contextmanager
def failing_once(error: type[BaseException]) -> Iterator[list[str]]:
    """The first load of each routine and kernel raises; which ones have."""
    failed: list[str] = []
    loads = {name: getattr(code, name) for name in ("load_routine", "load_kernel", "load_gate")}

    def make(load: Callable[..., Any]) -> Callable[..., Any]:
        def loaded(*arguments: Any) -> Any:
            name = f"{load.__name__} {arguments[:2]}"
            if name not in failed:
                failed.append(name)
                raise error(name)
            return load(*arguments)

        return loaded

    try:
        for name, load in loads.items():
            setattr(code, name, make(load))
        yield failed
    finally:
        for name, load in loads.items():
            setattr(code, name, load)


def interrupted(comm, name: str, error: type[BaseException]) -> int:
    group = comm.split(0)  # which has loaded nothing yet
    caught = 0
    with failing_once(error) as failed:
        while True:
            try:
                CALLS[name](group)
                break
            except error:
                caught += 1
    CALLS[name](group)
    group.barrier()
    assert caught == len(failed)
    return caught


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("name", CALLS)
def test_the_group_goes_on(ranks, name, error):
    assert min(ranks(2, interrupted, name, error)) > 0
