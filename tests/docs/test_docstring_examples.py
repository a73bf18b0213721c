"""The examples in the docstrings of the public interface give what they say, on every rank."""

import doctest
import inspect
import io
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll import jit, runner
from shmcoll.communicator import Communicator

PUBLIC = [shmcoll, jit, shmcoll.map, *(getattr(shmcoll, name) for name in shmcoll.__all__), *Communicator.__mro__[1:-1]]


def documented() -> dict[str, str]:
    """The docstrings that have an example, by name."""
    found: dict[str, str] = {}
    for one in PUBLIC:
        members = vars(one).items() if inspect.isclass(one) else []
        for name, member in [(getattr(one, "__name__", ""), one), *((f"{one.__name__}.{n}", m) for n, m in members)]:
            text = inspect.getdoc(member) if callable(member) or inspect.ismodule(member) else None
            if text and ">>>" in text and not name.rpartition(".")[2].startswith("__"):
                found[name] = text
    return found


DOCUMENTED = documented()
CALLERS = (
    "run",
    "map",
    "imap",
    "ranks",
    "shared",
    "Ranks.run",
    "Ranks.map",
    "Ranks.imap",
    "Executor",
)  # which are called where no rank is


def wrong(comm: Any, name: str) -> str:
    """What is wrong with the examples of a docstring; empty if nothing is."""
    names = {"comm": comm, "np": np, "shmcoll": shmcoll}
    test = doctest.DocTestParser().get_doctest(DOCUMENTED[name], names, name, None, 0)
    assert test.examples
    text = io.StringIO()
    result = doctest.DocTestRunner().run(test, out=text.write)
    return text.getvalue() if result.failed else ""


def test_the_interface_has_examples():
    assert len(DOCUMENTED) > 15


def all_wrong(comm: Any) -> list[str]:
    """What is wrong with the examples of all docstrings that ranks run."""
    shmcoll.init = lambda: comm
    return [text for name in DOCUMENTED if name not in CALLERS and (text := wrong(comm, name))]


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_the_examples_are_right(ranks, n):
    assert ranks(n, all_wrong) == [[]] * n


def test_the_examples_of_callers_of_ranks_are_right():
    try:
        assert [text for name in CALLERS if (text := wrong(None, name))] == []
    finally:
        runner.shutdown()
