"""The docstrings of the public interface: an imperative first line, and every argument described once, in its order."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import shmcoll
import shmcoll.mindspore.communication.comm_func
import shmcoll.mindspore.ops.communication
from shmcoll import jit, mindspore, nki
from shmcoll.communicator import Communicator
from shmcoll.mindspore.mint.distributed import CommHandle, TCPStore
from shmcoll.nki import counted_blocks, equal_blocks, permutes

NKI = (equal_blocks, counted_blocks, permutes, nki.language)
MINDSPORE = (
    mindspore.communication,
    mindspore.communication.comm_func,
    mindspore.context,
    mindspore.mint.distributed,
    mindspore.ops.communication,
)
MODULES = (jit, *MINDSPORE, *NKI)
OTHER_CLASSES = (shmcoll.Ranks, shmcoll.Work, shmcoll.Plan, shmcoll.Grid, nki.collectives.ReplicaGroup)
CLASSES = (*Communicator.__mro__[:-1], *OTHER_CLASSES, CommHandle, TCPStore)
OURS_ALONE = ("Work.await_end", "Work.settle")
NO_VERBS = {"A", "An", "As", "Every", "It", "That", "The", "This", "What", "Whether", "Which", "Who"}


def functions() -> dict[str, Callable[..., Any]]:
    """All public functions and methods, by name."""
    found = {
        name: getattr(shmcoll, name)
        for name in ("init", "run", "map", "ranks", "shared", "range", "op", "premul_sum", "pair_dtype")
    }
    for module in MODULES:
        for name in getattr(module, "__all__", vars(module)):
            member = getattr(module, name)
            home = getattr(member, "__module__", None) or ""
            if inspect.isfunction(member) and f"{home}.".startswith(f"{module.__name__}.") and not name.startswith("_"):
                found[f"{module.__name__.removeprefix('shmcoll.')}.{name}"] = member
    for cls in CLASSES:
        found |= {f"{cls.__name__}.{name}": member for name, member in vars(cls).items() if inspect.isfunction(member)}
    return {
        name: member
        for name, member in found.items()
        if not name.rpartition(".")[2].startswith("_") and name not in OURS_ALONE
    }


FUNCTIONS = functions()


def described(text: str) -> list[str]:
    """The names in the section Args."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)*)", text, re.MULTILINE)
    return re.findall(r"^    (\w+):", section[1], re.MULTILINE) if section else []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_described(name):
    arguments = [one for one in inspect.signature(FUNCTIONS[name]).parameters if one != "self"]
    assert described(inspect.getdoc(FUNCTIONS[name]) or "") == arguments


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_first_line_is_a_sentence_that_says_what_to_do(name):
    first = (inspect.getdoc(FUNCTIONS[name]) or "").split("\n\n")[0].split("\n")[0]
    assert first.rstrip(":").endswith((".", ":", ")")) or "`" in first
    assert first.split()[0] not in NO_VERBS


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sections_come_in_the_usual_order(name):
    order = ["Args", "Returns", "Raises", "Example"]
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    found = re.findall(r"^([A-Z]\w+):$", text, re.MULTILINE)
    assert found == [one for one in order if one in found]


def test_an_argument_that_is_missing_is_found():
    text = "Do it.\n\nArgs:\n    x: array.\n        Of any shape.\n    out: array.\n\nReturns:\n    y: no.\n"
    assert described(text) == ["x", "out"]
