"""Writes docs/reference/: the interface, from its docstrings.   python docs/generate.py [--check]

With --check nothing is written; it exits with 1 when a page is not what the docstrings say.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import shmcoll
from shmcoll import jit, mindspore, nki
from shmcoll.collectives import ROUTINES, all_reduce_shared
from shmcoll.communicator import Communicator
from shmcoll.communicator.collectives import Collectives
from shmcoll.communicator.grid import Grid
from shmcoll.communicator.messages import Messages, Recv, Send
from shmcoll.communicator.objects import Objects
from shmcoll.communicator.plans import Plan
from shmcoll.runtime.async_worker import Work

FOLDER = Path(__file__).parent / "reference"
FUNCTIONS = ("init", "run", "op", "premul_sum", "pair_dtype")
ERRORS = (
    "ShmcollError",
    "RankFailed",
    "CollectiveTimeout",
    "CollectiveMismatch",
    "ArenaError",
    "BufferChanged",
    "InternalError",
)


def pages() -> dict[str, str]:
    """File names and their text."""
    return {
        "shmcoll.md": _page("shmcoll", inspect.getdoc(shmcoll) or "", _of_package()),
        "communicator.md": _page("Communicator", inspect.getdoc(Communicator) or "", _of_communicator()),
        "algorithms.md": _page("How each collective works", _ALGORITHMS, _of_collectives()),
        "mindspore.md": _page("shmcoll.mindspore", inspect.getdoc(mindspore) or "", _of_modules(*_MINDSPORE)),
        "nki.md": _page("shmcoll.nki", inspect.getdoc(nki) or "", _of_modules(nki.collectives)),
    }


_MINDSPORE = (mindspore.ops, mindspore.communication, mindspore.mint.distributed)
_ALGORITHMS = """What stands in the files of `shmcoll/collectives/`. In the cost formulas n is the number of ranks, S
the bytes of one rank's array, a the time of one sync (a cache line there and back), b the time to copy one byte, g the
time to reduce one."""


def _page(title: str, introduction: str, sections: Iterator[str]) -> str:
    head = f"# {title}\n\n<!-- Made by docs/generate.py from the docstrings; edit those. -->\n\n{introduction}\n"
    return "\n".join([head, *sections])


def _of_package() -> Iterator[str]:
    for name in FUNCTIONS:
        yield _function(f"shmcoll.{name}", getattr(shmcoll, name))
    for cls in (Work, Plan, Grid):
        yield _section(f"shmcoll.{cls.__name__}", inspect.getdoc(cls))
        yield from _of_class(cls)
    for name in jit.OPERATIONS:
        yield _function(f"shmcoll.jit.{name}", getattr(jit, name))
    for kind in (Send, Recv):
        yield _section(f"shmcoll.{kind.__name__}", inspect.getdoc(kind))
    for name in ERRORS:
        yield _section(f"shmcoll.{name}", inspect.getdoc(getattr(shmcoll, name)))


def _of_communicator() -> Iterator[str]:
    for cls in (Collectives, Objects, Messages, Communicator):
        yield from _of_class(cls)


def _of_class(cls: type) -> Iterator[str]:
    for name, member in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield _section(name, inspect.getdoc(member))
        elif callable(member):
            yield _function(name, member)
            if name in ROUTINES:
                yield f"[How it works](algorithms.md#{name})\n"


def _of_collectives() -> Iterator[str]:
    for name, routine in ROUTINES.items():
        yield _section(name, inspect.getdoc(sys.modules[routine.__module__]))
    yield _section("all_reduce of shared arrays", inspect.getdoc(all_reduce_shared))


def _of_modules(*modules: ModuleType) -> Iterator[str]:
    for module in modules:
        path = module.__name__.removeprefix("shmcoll.").partition(".")[2]
        for name in getattr(module, "__all__", vars(module)):
            member = getattr(module, name)
            if not name.startswith("_") and getattr(member, "__module__", "") == module.__name__:
                yield _function(f"{path}.{name}", member)


def _function(name: str, function: Callable[..., Any]) -> str:
    return _section(name, inspect.getdoc(function), f"```python\n{name}{_signature(function)}\n```\n\n")


def _signature(function: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(function)
    except ValueError:
        return "(...)"
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def _section(name: str, text: str | None, head: str = "") -> str:
    return f"## {name}\n\n{head}{text or ''}\n"


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check compare them."""
    stale = []
    for name, text in pages().items():
        path = FOLDER / name
        if "--check" in arguments:
            stale += [name] if not path.exists() or path.read_text() != text else []
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if stale:
        print(f"docs/reference: {', '.join(stale)} not what the docstrings say; run python docs/generate.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
