"""Names that people bring from other libraries get the right call, which exists."""

import ast
import inspect
import re

import numpy as np
import pytest

import shmcoll
from shmcoll.communicator import Communicator
from shmcoll.communicator.graph import Graph
from shmcoll.communicator.grid import Grid
from shmcoll.diagnostics import other_names
from shmcoll.runtime import uncaught
from shmcoll.runtime.process_bound import ProcessBound
from shmcoll.runtime.work import Work

OWNERS = {"comm": Communicator, "grid": Grid, "work": Work, "shmcoll": shmcoll}

#: what has no name of ours in it
PLAIN = ("nothing", "await work", "time.perf_counter()", "platform.node()")

#: the methods that MPI has, too, and its forms that return at once or prepare a call
OF_MPI = (
    "barrier",
    "broadcast",
    "gather",
    "scatter",
    "all_gather",
    "all_to_all",
    "reduce",
    "all_reduce",
    "scan",
    "exscan",
)
SPELLINGS = [
    name for one in OF_MPI for name in (one.replace("_", "").title(), one.replace("_", ""), f"I{one}", one + "_init")
]


@pytest.mark.parametrize("name", [*other_names._HERE, *SPELLINGS])
def test_what_a_hint_names_exists(name: str) -> None:
    hint = other_names._here(name.lower().replace("_", ""), Communicator)
    calls = [node for text in re.split(", or |, with|, which|, as in | for ", hint) for node in _calls(text)]
    assert calls or hint.startswith(PLAIN), (name, hint)
    for owner, attribute, call in calls:
        found = getattr(OWNERS[owner], attribute)
        if call:
            own = [] if owner == "shmcoll" else [None]
            bound = inspect.signature(found).bind(*own, *call.args, **{one.arg: one.value for one in call.keywords})
            for parameter, value in bound.arguments.items():
                assert not isinstance(value, ast.Name) or value.id in (parameter, "function", "x"), hint


def _calls(text: str) -> list[tuple[str, str, ast.Call | None]]:
    """The attributes of our objects in a piece of Python, and how they are called."""
    try:
        tree = ast.parse(text.strip())
    except SyntaxError:
        return []
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [
        (node.value.id, node.attr, called.get(id(node)))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in OWNERS
    ]


@pytest.mark.parametrize(
    "name, hint",
    [
        ("Get_rank", "comm.rank"),
        ("Allreduce", "comm.all_reduce(x)"),
        ("allreduce", "comm.all_reduce_object(value)"),
        ("bcast", "comm.broadcast_object(value, root=0)"),
        ("isend", "comm.send(x, dest, async_op=True)"),
        ("Iprobe", "comm.iprobe(source=source)"),
        ("Igatherv", "comm.gather_v(x, root=0, async_op=True)"),
        ("Allreduce_init", "comm.plan('all_reduce', x)"),
        ("init_process_group", "comm = shmcoll.init()"),
        ("Neighbor_allgather", "comm.graph(sources).all_gather(x)"),
        ("Split", "comm.split(color)"),
        ("all_gather_into_tensor", "comm.all_gather(x, out=out)"),
        ("brodcast", "'broadcast'"),
    ],
)
def test_a_communicator(ranks, name: str, hint: str) -> None:
    def ask(comm):
        return _asked(comm, name)

    (text,) = ranks(1, ask)
    assert hint in text and text.startswith(f"a communicator has no attribute {name!r}"), text


def _asked(owner, name: str) -> str:
    """What the error says of an attribute that its owner does not have, as it is printed last."""
    with pytest.raises(AttributeError) as told:
        getattr(owner, name)
    uncaught.explain(told.value)
    return [str(told.value), *getattr(told.value, "__notes__", ())][-1]


def test_grids_handles_and_the_package(ranks) -> None:
    def ask(comm):
        grid, work = comm.grid(1), comm.all_reduce(np.ones(1), async_op=True)
        graph = comm.graph([0])
        owners = (grid, "rank"), (graph, "size"), (work, "is_completed"), (shmcoll, "all_reduce")
        texts = [_asked(*one) for one in owners]
        work.wait()
        return texts

    (texts,) = ranks(1, ask)
    assert [text.rpartition(" ")[2] for text in texts[:3]] == [".comm.rank?", ".comm.size?", "work.done()"]
    assert "comm.all_reduce(x)" in texts[3]


def test_hints_cost_calls_nothing() -> None:
    """CPython takes 80 ns longer for a call of a method of a class that has `__getattr__`."""
    assert not any(hasattr(owner, "__getattr__") for owner in (ProcessBound, Communicator, Grid, Graph, Work))
