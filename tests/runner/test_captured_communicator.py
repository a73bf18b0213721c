"""A communicator belongs to its process: a function that is sent must not take one along."""

from typing import Any

import pytest

import shmcoll

CAPTURED = """
    import functools
    import numpy as np
    import shmcoll

    comm = shmcoll.init()
    plan, grid, work = comm.plan("all_reduce", np.ones(1)), comm.grid((1,)), comm.barrier(async_op=True)

    def identity(x):
        return x

    def enclosing(comm):
        return lambda: comm.rank

    captured = {
        "global": (lambda: comm.rank,),
        "closure": (enclosing(comm),),
        "default": (lambda comm=comm: comm.rank,),
        "partial": (functools.partial(identity, comm),),
        "argument": (identity, comm),
        "in a list": (identity, [1, {"comm": comm}]),
        "method": (comm.barrier,),
        "plan": (identity, plan),
        "grid": (identity, grid),
        "work": (identity, work),
    }
    for how, (fn, *arguments) in captured.items():
        try:
            shmcoll.run(fn, 2, *arguments)
        except TypeError as e:
            print(f"{how}: {e}")
    for call in (lambda: shmcoll.run(dict, 1, comm=comm), lambda: shmcoll.map(identity, [comm])):
        try:
            call()
        except TypeError as e:
            print(e)
    work.wait()
    print(shmcoll.run(lambda: shmcoll.init().rank, 2))
"""

ADVICE = (
    "the function or an argument cannot be sent to the ranks: it contains {}, which belongs to the process that "
    "made it; call shmcoll.init() in the function: it returns the communicator of the rank that calls it"
)


def test_what_belongs_to_another_process_is_refused_and_the_text_says_what_to_do(scripts: Any) -> None:
    *told, last = scripts(CAPTURED).splitlines()
    texts, wheres = zip(*(line.split("; it is in ") for line in told), strict=True)
    *lines, keyword, item = texts
    ways = ("global", "closure", "default", "partial", "argument", "in a list", "method")
    expected = dict.fromkeys(ways, "a communicator") | {
        "plan": "the plan of a communicator",
        "grid": "the grid of a communicator",
        "work": "an asynchronous call of a communicator",
    }
    assert lines == [f"{how}: {ADVICE.format(what)}" for how, what in expected.items()]
    assert keyword == item == ADVICE.format("a communicator")
    assert (wheres[0], wheres[-2:]) == ("the global variable 'comm' of <lambda>", ("comm", "item 0"))
    assert last == "[0, 1]"


def test_a_communicator_that_is_returned() -> None:
    with pytest.raises(TypeError) as caught:
        shmcoll.run(lambda: [shmcoll.init()], 1)
    assert str(caught.value) == (
        "the result of rank 0, a list, cannot be pickled: it contains a communicator, which belongs to the process "
        "that made it; return the numbers and arrays that the caller needs"
    )


def test_ranks_that_are_sent() -> None:
    with shmcoll.ranks(1) as r, pytest.raises(TypeError, match="belongs to the process that made it"):
        r.run(str, r)
