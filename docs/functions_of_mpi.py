"""The page with all functions of MPI: which of them native code runs, and which are refused and why."""

import re
from collections.abc import Iterator
from functools import partial
from sys import modules
from typing import Any

import shmcoll.mpi  # noqa: F401 - it registers all functions
from shmcoll.engine.native import mpi_functions
from shmcoll.mpi.abi.facts import NAMES
from shmcoll.mpi.objects import collective, refused
from shmcoll.mpi.objects.functions import MAKERS

INTRODUCTION = """What `shmrun --mpi` and `import shmcoll.mpi` have: each name of MPI 5.0 that the library of an MPICH
has, and with that each name that mpi4py asks for ([Coming from mpi4py](../guide/mpi4py.md)). Functions are listed by
the chapter of the standard. `_c` marks those that have a form for large counts under that name. `MPI_T`, which
describes an MPI's insides, is not there.

* native: compiled code makes the call; what it cannot make, such as a call with a derived type, goes on to Python
* Python: a function in Python reads the arguments and calls a communicator
* refused: the call returns `MPI_ERR_UNSUPPORTED_OPERATION`, with the reason; mpi4py asks for none of these"""

_MACROS = ("MPI_DUP_FN",)  # the header gives it another name, which is there


def sections() -> Iterator[str]:
    """Yield a table for each chapter."""
    names = [name for name in NAMES if name not in _MACROS]
    told = [name for name in names if name in refused.REFUSED]
    native = sum(name in mpi_functions.NAMES for name in names)
    yield f"{len(names)} names: {native} native, {len(names) - native - len(told)} Python, {len(told)} refused.\n"
    chapters: dict[str, list[str]] = {}
    for name in names:
        if name not in told and not _is_large(name):
            chapters.setdefault(_title(_home(MAKERS[name])), []).append(name)
    for title in sorted(chapters):
        yield _table(title, chapters[title])
    reasons: dict[str, list[str]] = {}
    for name in told:
        if not _is_large(name):
            reasons.setdefault(refused.reason(name), []).append(f"`{name}`{_large(name)}")
    rows = [f"| {reason} | {', '.join(found)} |" for reason, found in reasons.items()]
    yield "\n".join(["## Refused\n", "| why | |", "|---|---|", *rows, ""])


def _table(title: str, names: list[str]) -> str:
    kinds: dict[str, list[str]] = {"native": [], "Python": []}
    for name in names:
        kinds["native" if name in mpi_functions.NAMES else "Python"].append(f"`{name}`{_large(name)}")
    rows = [f"| {kind} | {', '.join(found)} |" for kind, found in kinds.items() if found]
    return "\n".join([f"## {title}\n", "| | |", "|---|---|", *rows, ""])


def _large(name: str) -> str:
    return " (`_c`)" if f"{name}_c" in MAKERS else ""


def _is_large(name: str) -> bool:
    return name.endswith("_c") and name[:-2] in MAKERS


def _title(home: str) -> str:
    """Return the chapter's name, from the first line of its file: MPI's chapter on this: what it has."""
    if home == collective.__name__:  # collectives are made from one description each
        return "Collectives"
    found = re.match(r"MPI's chapters? on (.*?)[:.,]", " ".join((modules[home].__doc__ or "").split()))
    return (found[1] if found else home.rpartition(".")[2].replace("_", " ")).capitalize()


def _home(made: Any) -> str:
    """Return the module of the function in Python that a callback is made of."""
    while isinstance(made, partial):
        made = next((one for one in made.args if callable(one)), made.func)
    return str(made.__module__)
