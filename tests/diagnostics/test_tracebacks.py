"""Tracebacks end at the user's line, through every door; bugs of ours keep all frames.

`tests/calls/test_refusals_change_nothing.py` looks at the tracebacks of all refusals of arrays.
"""

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.engine.system import tracebacks
from tests.support.frames import PACKAGE, frames, ours, raised

Refusal = tuple[str, Callable[[], Any]]


def of_methods(comm: Any) -> Iterator[Refusal]:
    x = np.ones(2)
    ring = comm.graph([comm.rank], [comm.rank])
    message = shmcoll.Send(x, 9)
    yield from {
        "a wrong signature": lambda: comm.split(),
        "split": lambda: comm.split("a"),
        "subgroup": lambda: comm.subgroup([9]),
        "graph": lambda: comm.graph([9]),
        "graph.all_gather": lambda: ring.all_gather(object()),
        "graph.all_to_all": lambda: ring.all_to_all(object()),
        "grid": lambda: comm.grid((7, 7)),
        "grid.exchange": lambda: comm.grid((2, 1)).exchange([1]),
        "grid.rank_at": lambda: comm.grid((2, 1)).rank_at("a"),
        "close": lambda: comm.close(),
        "shrink": lambda: comm.shrink(),
        "timeout": lambda: setattr(comm, "timeout", -1),
        "plan": lambda: comm.plan("median", x),
        "batch": lambda: comm.batch([message]),
        "probe": lambda: comm.probe(9),
        "iprobe": lambda: comm.iprobe(tag="a"),
        "send_object": lambda: comm.send_object(lambda: 0, 9),
        "an object that cannot be pickled": lambda: comm.send_object(sys._getframe(), comm.rank),
        "recv_object": lambda: comm.recv_object(9),
        "sendrecv_object": lambda: comm.sendrecv_object(1, 9),
        "broadcast_object": lambda: comm.broadcast_object(1, 9),
        "all_reduce_object": lambda: comm.all_reduce_object(1, 5),
        "empty": lambda: comm.empty(-1, float),
        "too much memory": lambda: comm.empty(1 << 60, np.uint8),
        "views": lambda: comm.views(x),
        "work": lambda: comm.all_reduce(x, out=np.ones(3), async_op=True).wait(),
        "work that is awaited": lambda: asyncio.run(awaited(comm.all_reduce(x, out=np.ones(3), async_op=True))),
        "work that takes too long": lambda: comm.recv(async_op=True, source=comm.rank).wait(0.01),
        "wait_all": lambda: shmcoll.wait_all([5]),
        "wait_any": lambda: shmcoll.wait_any([]),
        "a name that is not there": lambda: comm.Allreduce(x),
        "a name of the package": lambda: shmcoll.allreduce,
        "op": lambda: shmcoll.op(5),
        "premul_sum": lambda: shmcoll.premul_sum("a"),
        "pair_dtype": lambda: shmcoll.pair_dtype("U3"),
        "shared": lambda: shmcoll.shared(np.array([None])),
        "run in a rank": lambda: shmcoll.run(int, 1),
        "from_mpi": lambda: shmcoll.from_mpi(5),
    }.items()


async def awaited(work: Any) -> Any:
    return await work


def of_fronts(comm: Any) -> Iterator[Refusal]:
    import shmcoll.mindspore as ms
    from shmcoll import jit
    from shmcoll.mindspore.communication import create_group, get_rank, init
    from shmcoll.nki import collectives as nki

    init()
    x = np.ones(2, np.float32)
    yield from {
        "jit": lambda: jit.all_reduce(comm.handle, x, x, 99),
        "jit without handle": lambda: jit.barrier(x),
        "jitted": lambda: jitted()(comm.handle, x, np.ones(3, np.float32)),
        "mindspore's operator": lambda: ms.ops.AllReduce(5),
        "mindspore's call": lambda: ms.ops.AllGather()(5),
        "mindspore's group": lambda: create_group("g", [9]),
        "mindspore's rank": lambda: get_rank("nowhere"),
        "mint.distributed": lambda: ms.mint.distributed.all_gather_object(5, 5),
        "nki's groups": lambda: nki.ReplicaGroup(5),
    }.items()


@functools.cache
def jitted() -> Callable[..., None]:
    from numba import njit

    from shmcoll import jit

    @njit
    def call(h, x, out):
        jit.all_reduce(h, x, out)

    return call


def of_failures(comm: Any) -> Iterator[Refusal]:
    def mismatch() -> None:
        one = comm.dup()
        one.barrier() if comm.rank else one.all_reduce(1)

    def late(call: Callable[[Any], Any]) -> None:
        one = comm.dup()
        one.timeout = 0.05
        if comm.rank == 0:
            call(one)
        comm.barrier()
        call(one)

    def deadlock() -> None:
        comm.dup().recv(source=1 - comm.rank)

    yield "mismatch", mismatch
    yield "deadlock", deadlock
    yield "timeout", functools.partial(late, lambda one: one.barrier())
    yield "timeout of objects", functools.partial(late, lambda one: one.all_gather_object(1))
    yield "timeout of a plan", functools.partial(late, lambda one: one.plan("all_reduce", np.ones(2))())
    yield "timeout of a receive", functools.partial(late, lambda one: one.recv_object(1 - one.rank))


@pytest.mark.parametrize("door", [of_methods, of_fronts, of_failures])
def test_no_more_than_one_frame_is_ours(ranks: Any, door: Callable[[Any], Iterator[Refusal]]) -> None:
    def work(comm: Any) -> dict[str, Any]:
        found = {why: ours(raised(call, why)) for why, call in door(comm)}
        return {why: one for why, one in found.items() if len(one) > 1}

    assert ranks(2, work) == [{}, {}]


class Failing:
    def __reduce__(self) -> Any:
        raise LookupError("the user's")


def test_frames_of_the_user_stay_on_both_sides(ranks: Any) -> None:
    def plus(_a: int, _b: int) -> int:
        raise LookupError("the user's")

    def work(comm: Any) -> list[list[str]]:
        def reduce() -> None:
            comm.all_reduce_object(1, plus)

        def send() -> None:
            comm.send_object(Failing(), comm.rank)

        return [frames(raised(call)) for call in (reduce, send)]

    for found in ranks(2, work):
        assert found[0][:2] == ["raised", "reduce"]
        assert any(name == "plus" for name in found[0]) or found[0][2:] == []  # on the rank that has called it
        assert found[1][:2] == ["raised", "send"] and "__reduce__" in found[1]


def test_a_bug_of_ours_keeps_all_frames(ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from shmcoll.communicator import graph

    made = FunctionType(compile("def bug(*_): return {}[0]", graph.__file__, "exec").co_consts[0], {})
    monkeypatch.setattr(graph, "make", made)

    def work(comm: Any) -> list[str]:
        return frames(raised(lambda: comm.graph([])))[-2:]

    assert ranks(1, work) == [["shmcoll graph", "shmcoll bug"]]


def test_the_variable_keeps_all_frames(ranks: Any) -> None:
    def work(comm: Any) -> int:
        return len(frames(raised(lambda: comm.broadcast(1, 9))))

    [short], [long] = ranks(1, work), ranks(1, work, environment={"SHMCOLL_FULL_TRACEBACKS": "1"})
    assert short == 2 < long


PRINTED = """
    import numpy as np, shmcoll
    from shmcoll.mindspore.mint import distributed

    def work():
        comm = shmcoll.init()
        distributed.init_process_group()
        try:
            comm.all_reduce(np.ones(2), "zum")
        except ValueError:
            distributed.all_reduce(5)

    work() if {is_rank} else shmcoll.run(work, 1)
"""


@pytest.mark.parametrize("door", ["shmrun", "shmcoll.run"])
def test_printed_tracebacks_have_no_frame_of_ours(tmp_path: Path, door: str) -> None:
    from tests.support.launched import Scripts

    scripts = Scripts(tmp_path)
    try:
        text = PRINTED.format(is_rank=door == "shmrun")
        if door == "shmrun":
            (tmp_path / "job.py").write_text(inspect.cleandoc(text))
            job = scripts.start_process([sys.executable, "-m", "shmrun", "-n", "1", tmp_path / "job.py"], os.environ)
        else:
            job = scripts.start(text)
        _, err = job.communicate(timeout=60)
    finally:
        scripts.end()
    assert f'File "{PACKAGE}' not in err and "/shmrun/" not in err
    assert err.count("in work") == 2 and "must be tensor" in err


def test_what_has_no_border_is_known() -> None:
    """Every public function and method has one, so that a new one is not forgotten."""
    import shmcoll.mindspore

    def has(function: FunctionType) -> bool:
        names = function.__code__.co_names
        return "shorten" in names or function.__code__.co_filename == tracebacks.__file__

    public = [getattr(shmcoll, name) for name in dir(shmcoll) if not name.startswith("_")]
    public += [getattr(shmcoll.mindspore.communication, name) for name in shmcoll.mindspore.communication.__all__]
    lacking = [one.__qualname__ for one in public if isinstance(one, FunctionType) and not has(one)]
    for one in (shmcoll.Communicator, shmcoll.Graph, shmcoll.Grid, shmcoll.Plan, shmcoll.Ranks, shmcoll.Message):
        for name, method in inspect.getmembers(one, inspect.isfunction):
            if not name.startswith("_") and not has(method):
                lacking.append(f"{one.__name__}.{name}")
    assert lacking == ["freeze_support", "pair_dtype"]  # nothing below these raises
