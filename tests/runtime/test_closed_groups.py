"""What is left of a communicator that has been closed: nothing, without the garbage collector."""

import atexit
import gc
import weakref

import numpy as np

TIMES = 5


def closed(comm, use) -> bool:
    """Whether dispatcher and worker of a group are still there when it has been used and closed."""
    group = comm.dup()
    use(group)
    group.close()
    parts = [weakref.ref(group), weakref.ref(group._dispatcher), weakref.ref(group._dispatcher.worker)]
    del group
    return any(one() is not None for one in parts)


def posted(group) -> None:
    coming = group.recv(np.empty(3), source=1 - group.rank, async_op=True)
    group.send(np.ones(3), dest=1 - group.rank)
    coming.wait()


USES = {
    "not at all": lambda group: None,
    "collectives": lambda group: group.all_reduce(np.ones(100_000)),
    "objects": lambda group: group.all_reduce_object([group.rank]),
    "messages": lambda group: group.sendrecv(np.ones(3), dest=1 - group.rank, source=1 - group.rank),
    "posted receives": posted,
    "asynchronous work": lambda group: group.all_reduce(np.ones(3), async_op=True).wait(),
    "groups": lambda group: group.split(0).close(),
}


def test_a_closed_communicator_is_gone_at_once(ranks) -> None:
    def check(comm) -> list[str]:
        gc.disable()
        try:
            return [name for name, use in USES.items() if closed(comm, use)]
        finally:
            gc.enable()

    assert ranks(2, check) == [[]] * 2


def test_groups_leave_no_exit_handlers(ranks) -> None:
    def check(comm) -> int:
        comm.dup().close()
        before = atexit._ncallbacks()
        for _ in range(TIMES):
            comm.dup().close()
        return atexit._ncallbacks() - before

    assert ranks(2, check) == [0, 0]
