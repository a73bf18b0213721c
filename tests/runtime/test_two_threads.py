"""Two threads of a rank that make collectives on one communicator at once: the second one is refused, in every form.

One thread is held inside a collective, because rank 1 does not come before the other thread of rank 0 has called.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit, types

from shmcoll import jit
from shmcoll.communicator import Communicator
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.native.tables import CALL_BITS
from shmcoll.errors import CallNotAllowed
from tests.support import switches
from tests.support.launched import shmrun  # noqa: F401 - a fixture
from tests.support.patience import PATIENCE
from tests.support.waiting import until

ONE = np.ones(2)
LONG = np.ones(100)  # more than a header takes: even rank 0 waits in a scan
FOREIGN = np.array(["2020-01-01"] * 2, "M8[D]")  # a dtype without reductions, which takes a second operation to tell
BLOCK = np.ones((3, 3))


@njit(nogil=True)
def jitted(h, operation, x, out):
    if operation == 0:
        jit.barrier(h)
    elif operation == 1:
        jit.all_reduce(h, x, x)
    elif operation == 2:
        jit.broadcast(h, x, 1)
    elif operation == 3:
        jit.all_gather(h, x, out)
    elif operation == 4:
        jit.reduce_scatter(h, out, x)
    else:
        jit.all_to_all(h, x, x)


@pytest.fixture(autouse=True, scope="module")
def compiled():
    """Once, in the process from which ranks are forked, and not in each of them."""
    floats = types.Array(types.float64, 1, "C")
    jitted.compile((types.Array(types.int64, 1, "C", readonly=True), types.int64, floats, floats))


#: name in the message: a call in which rank 0 waits for rank 1
CALLS: dict[str, Callable[[Any], Any]] = {
    "barrier": lambda comm: comm.barrier(),
    "all_reduce": lambda comm: comm.all_reduce(ONE),
    "reduce": lambda comm: comm.reduce(ONE),
    "reduce_scatter": lambda comm: comm.reduce_scatter(ONE),
    "reduce_scatter_v": lambda comm: comm.reduce_scatter_v(ONE, [1, 1]),
    "scan": lambda comm: comm.scan(LONG),
    "exscan": lambda comm: comm.exscan(LONG),
    "all_gather": lambda comm: comm.all_gather(ONE),
    "all_gather_v": lambda comm: comm.all_gather_v(ONE),
    "gather": lambda comm: comm.gather(ONE),
    "gather_v": lambda comm: comm.gather_v(ONE),
    "scatter": lambda comm: comm.scatter(ONE, 1),
    "scatter_v": lambda comm: comm.scatter_v(ONE, 1, send_counts=[1, 1]),
    "broadcast": lambda comm: comm.broadcast(ONE, 1),
    "all_to_all": lambda comm: comm.all_to_all(ONE),
    "all_to_all_v": lambda comm: comm.all_to_all_v(ONE, [1, 1]),
    "collective_permute": lambda comm: comm.collective_permute(ONE, [(0, 1), (1, 0)]),
    "broadcast_object": lambda comm: comm.broadcast_object("x", 1),
    "gather_object": lambda comm: comm.gather_object("x"),
    "all_gather_object": lambda comm: comm.all_gather_object("x"),
    "scatter_object": lambda comm: comm.scatter_object(["x", "y"], 1),
    "all_to_all_object": lambda comm: comm.all_to_all_object(["x", "y"]),
    "reduce_object": lambda comm: comm.reduce_object("x"),
    "all_reduce_object": lambda comm: comm.all_reduce_object("x"),
    "scan_object": lambda comm: comm.scan_object("x"),
    "exscan_object": lambda comm: comm.exscan_object("x"),
    "views": lambda comm: comm.views(comm.zeros(2)),
    "split": lambda comm: comm.split(0).close(),
    "dup": lambda comm: comm.dup().close(),
    "graph": lambda comm: comm.graph([1 - comm.rank]).close(),
    "halo_exchange": lambda comm: comm.grid(2).exchange(BLOCK),
}
#: name of the call in the message, behind a word that tells forms apart: a call that is the same for the other rank
FORMS: dict[str, Callable[[Any], Any]] = {
    "strided all_reduce": lambda comm: comm.all_reduce(np.ones(4)[::2]),
    "foreign all_gather": lambda comm: comm.all_gather(FOREIGN),
    "foreign scatter_v": lambda comm: comm.scatter_v(FOREIGN, 1, send_counts=[1, 1]),
    "jitted barrier": lambda comm: jitted(comm.handle, 0, ONE, np.ones(4)),
    "jitted all_reduce": lambda comm: jitted(comm.handle, 1, ONE, np.ones(4)),
    "jitted broadcast": lambda comm: jitted(comm.handle, 2, ONE, np.ones(4)),
    "jitted all_gather": lambda comm: jitted(comm.handle, 3, ONE, np.ones(4)),
    "jitted reduce_scatter": lambda comm: jitted(comm.handle, 4, ONE, np.ones(4)),
    "jitted all_to_all": lambda comm: jitted(comm.handle, 5, ONE, np.ones(4)),
    "planned all_reduce": lambda comm: comm.plan("all_reduce", ONE)(),
    "planned all_gather_v": lambda comm: comm.plan("all_gather_v", ONE, out=np.ones(4))(),
    "sub split": lambda comm: comm.grid((2, 1)).sub((True, False)).comm.close(),
}
#: forms that begin a call and do not wait for it
BEGUN: dict[str, Callable[[Any], Any]] = {
    "started all_reduce": lambda comm: comm.plan("all_reduce", ONE).start(),
    **{
        f"asynchronous {name}": lambda comm, name=name, given=given: getattr(comm, name)(*given, async_op=True)
        for name, given in {"barrier": (), "all_reduce": (ONE,), "all_gather_object": ("x",)}.items()
    },
}
ELSEWHERE = {  # methods that are no collectives, or of which `CALLS` has the collective
    *("abort", "allocating", "batch", "close", "empty", "full", "zeros", "handle", "is_shared", "launcher", "name"),
    *("node", "nodes", "rank", "ranks", "size", "timeout", "grid", "plan", "shrink", "statistics"),
    *("subgroup", "trace"),  # made of `all_gather_object` and `gather_object`
    *("send", "recv", "send_object", "recv_object", "sendrecv", "sendrecv_object"),
    *("probe", "iprobe", "mprobe", "improbe"),
}


def test_every_collective_is_in_the_table():
    assert {name for name in dir(Communicator) if name[0] != "_"} - ELSEWHERE == set(CALLS) - {"halo_exchange"}


class Held:
    """`with Held(comm, call)`: another thread of rank 0 is inside the call. At the end the other rank comes."""

    def __init__(self, comm: Any, control: Any, call: Callable[[Any], Any]):
        self.comm, self.control = comm, control
        self.thread = threading.Thread(target=lambda: self.run(call), name="the first")
        self.error: BaseException | None = None

    def run(self, call: Callable[[Any], Any]) -> None:
        try:
            call(self.comm)
        except BaseException as error:
            self.error = error

    def __enter__(self) -> "Held":
        words = self.comm._dispatcher.words
        self.thread.start()
        until(
            lambda: (
                self.thread.ident in (words[c.ACTIVE // WORD], words[c.COLLECTIVE // WORD] >> CALL_BITS)
                or not self.thread.is_alive()
            )
        )
        assert self.thread.is_alive(), self.error
        return self

    def __exit__(self, *_: object) -> None:
        self.control.barrier()
        self.thread.join()
        if self.error:
            raise self.error


def refusal(comm: Any, call: Callable[[Any], Any]) -> CallNotAllowed:
    with pytest.raises(CallNotAllowed) as caught:
        call(comm)
    return caught.value


def prepared(comm: Any, calls: dict[str, Callable[[Any], Any]]) -> tuple[Any, dict[str, Callable[[Any], Any]]]:
    """Make what is not to be made while a thread is held. Returns a second communicator, and the calls of `calls` that
    there are: over nodes there is neither shared memory nor jitted code."""
    here = {
        name: call for name, call in calls.items() if len(comm.nodes) == 1 or not name.startswith(("views", "jitted"))
    }
    for name, call in here.items():
        if name not in BEGUN:
            call(comm)
    return comm.dup(), here


def in_the_line(comm: Any, call: Callable[[Any], Any], holder: Callable[[Any], Any], control: Any) -> CallNotAllowed:
    """Do the same as `Held`, where the first thread waits for its turn behind an asynchronous call."""
    go_on = threading.Event()
    work = switches.keep_worker_busy(comm, go_on.wait)
    try:
        with Held(comm, control, holder):
            told = refusal(comm, call)
            go_on.set()
            work.wait()
    finally:
        go_on.set()
    return told


def each_as_the_second(comm) -> dict[str, tuple[str, str | None]]:
    (control, calls), told = prepared(comm, CALLS | FORMS | BEGUN), {}
    for name, call in calls.items():
        for way in ("inside", "waiting"):
            if comm.rank:
                control.barrier()
                comm.barrier()
            elif way == "inside":
                with Held(comm, control, CALLS["barrier"]):
                    error = refusal(comm, call)
            else:
                error = in_the_line(comm, call, CALLS["barrier"], control)
            if comm.rank == 0:
                told[f"{way} {name}"] = str(error), error.operation
    return told


def check_seconds(told: dict[str, tuple[str, str | None]]) -> None:
    line = CALLS["barrier"].__code__.co_firstlineno
    for name, (text, operation) in told.items():
        assert operation == name.split()[-1], name
        assert text.startswith(f"{operation} at ") and "test_two_threads.py:" in text.split(" on rank ")[0], name
        assert "thread 'the first' is in barrier of the same communicator, called at" in text, name
        assert f"tests/runtime/test_two_threads.py:{line}." in text and "comm.dup()" in text, text[:300]
    assert len(told) > 2 * len(CALLS)


def test_the_second_thread_is_refused(ranks):
    check_seconds(ranks(2, each_as_the_second)[0])


def each_as_the_first(comm) -> dict[str, str]:
    (control, calls), told = prepared(comm, CALLS | FORMS), {}
    for name, call in calls.items():
        if comm.rank:
            control.barrier()
            call(comm)
            continue
        with Held(comm, control, call):
            told[name] = str(refusal(comm, CALLS["barrier"]))
            told[f"asynchronously, {name}"] = str(refusal(comm, BEGUN["asynchronous barrier"]))
    return told


def check_firsts(told: dict[str, str]) -> None:
    for name, text in told.items():
        last = name.split()[-1]
        inside = "reduce_scatter" if last == "reduce_scatter_v" else last
        assert f"thread 'the first' is in {inside} of the same communicator" in text, name
    assert len(told) >= len(CALLS)


def test_the_first_thread_is_named(ranks):
    check_firsts(ranks(2, each_as_the_first)[0])


def between_the_parts(comm) -> tuple[str, int, int]:
    """The operator of rank 0 runs between two parts. Returns what a barrier is told, what a closing thread gets, and
    the line of the call."""
    group, control = comm.dup(), comm.dup()
    within, go_on = threading.Event(), threading.Event()

    def add(a: int, b: int) -> int:
        within.set()
        assert go_on.wait(PATIENCE)
        return a + b

    if comm.rank:
        total = group.all_reduce_object(comm.rank + 1)
        control.barrier()
        return "", total, 0
    call = lambda: results.append(group.all_reduce_object(1, add))  # noqa: E731 - its line is needed
    first = threading.Thread(target=call, name="the first")
    results: list[int] = []
    first.start()
    assert within.wait(PATIENCE)
    told = [str(refusal(group, call)) for call in (CALLS["barrier"], BEGUN["asynchronous barrier"])]
    group.send(ONE, 0)  # messages are no collectives
    assert group.recv(source=0)[0].tolist() == [1, 1]
    closing = threading.Thread(target=group.close)
    closing.start()
    go_on.set()
    first.join()
    closing.join()
    control.barrier()
    return " / ".join(told), results[0], call.__code__.co_firstlineno


def test_a_call_of_several_parts_is_one_call(ranks):
    """Its line is told, not one that the thread has reached from within the call."""
    (told, total, line), (_, other, _) = ranks(2, between_the_parts)
    where = f"called at tests/runtime/test_two_threads.py:{line}."
    assert told.count(f"thread 'the first' is in all_reduce_object of the same communicator, {where}") == 2, told
    assert total == other == 3


def closed_in_the_first_part(comm) -> tuple[bool, list[bytes]]:
    """Another thread closes the group while this one is in the first part of a call for objects. Returns whether that
    waits for the other parts, and the object."""
    group, control, got = comm.dup(), comm.dup(), []
    value = bytes(range(256)) * 100
    if comm.rank:
        control.barrier()
        got.append(group.broadcast_object(value, 1))
        group.close()
        return True, got
    closing = threading.Thread(target=group.close)
    with Held(group, control, lambda held: got.append(held.broadcast_object(None, 1))):
        waits = group._dispatcher.worker.turns.has_parts_to_make()
        closing.start()
    closing.join()
    return waits, got


def test_a_group_is_not_closed_between_two_parts(ranks):
    assert ranks(2, closed_in_the_first_part) == [(True, [bytes(range(256)) * 100])] * 2


def what_is_allowed(comm) -> list[float]:
    """An asynchronous call of another thread is no obstacle, nor a thread that has ended, nor one with a group."""
    control, other = comm.dup(), comm.dup()
    told: list[float] = []
    works: list[Any] = []

    def begin() -> None:
        works.append(comm.all_reduce(ONE, async_op=True))

    def use() -> None:
        told.append(float(other.all_reduce(ONE)[0]))

    user = threading.Thread(target=use)
    user.start()
    if comm.rank:
        control.recv(source=0)
    beginner = threading.Thread(target=begin)
    beginner.start()
    beginner.join()
    if comm.rank == 0:
        words, worker = comm._dispatcher.words, comm._dispatcher.worker
        until(lambda: words[c.ACTIVE // WORD] == worker.identity)
        works.append(comm.barrier(async_op=True))
        control.send(ONE, 1)
    else:
        comm.barrier()
    told.append(float(comm.all_reduce(2 * ONE)[0]))
    user.join()
    return [*told, float(works[0].wait()[0])]


def test_what_is_allowed(ranks):
    for told in ranks(2, what_is_allowed):
        assert sorted(told) == [2, 2, 4]


def test_an_error_in_a_thread_of_prange_ends_the_group(shmrun):  # noqa: F811
    """numba loses what is raised there. The threads of `prange` take the rows in two halves."""
    script = shmrun.write("""
        import threading
        import numpy as np
        import shmcoll
        from numba import njit, prange
        from shmcoll import jit

        comm = shmcoll.init()
        control = comm.dup()

        @njit(parallel=True, nogil=True)
        def rows(h):
            for i in prange(2):
                if i == 1:
                    jit.barrier(h)

        def barrier():
            try:
                comm.barrier()
            except shmcoll.RankFailed as error:
                print(error)

        if comm.rank == 0:
            held = threading.Thread(target=barrier)
            held.start()
            while not comm._dispatcher.words[0]:
                pass
            rows(comm.handle)
            held.join()
            barrier()
        control.barrier()
    """)
    told = shmrun("-n", 2, script, env={"NUMBA_NUM_THREADS": "2", "NUMBA_THREADING_LAYER": "workqueue"})
    assert told.returncode == 1
    assert told.stdout.count("barrier on rank 0 has failed in a thread of jitted code (numba's prange)") == 2
    assert "shmcoll: barrier on rank 0 has failed in a thread" in told.stderr and "CallNotAllowed" in told.stderr
