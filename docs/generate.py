"""Writes docs/reference/, the interface, from its docstrings, the excerpts in docs/internals/ from the files, and the
tables in docs/performance.md from docs/measurements/.

    python docs/generate.py [--check]

With --check nothing is written; it exits with 1 when a page is not what the docstrings and the files say.

A docstring has sections as in Google's style: a line `Args:`, `Returns:`, `Raises:` or `Example:`, and what is indented
below it.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import excerpts
import functions_of_mpi
import measured

import shmcoll
from shmcoll import errors, jit, mindspore, nki
from shmcoll.collectives import ROUTINES, all_reduce_parts
from shmcoll.communicator import Communicator
from shmcoll.communicator.graph import Graph
from shmcoll.communicator.grid import Grid
from shmcoll.communicator.messages import Recv, RecvObject, Send, SendObject
from shmcoll.communicator.plans import Plan
from shmcoll.mindspore import context, nn
from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.mint.distributed import CommHandle, TCPStore
from shmcoll.mindspore.ops import communication
from shmcoll.runner.pool import Ranks
from shmcoll.runtime.work import Work

FOLDER = Path(__file__).parent / "reference"
FUNCTIONS = (
    "init", "from_mpi", "run", "map", "ranks", "shared", "freeze_support", "range", "op", "premul_sum", "pair_dtype",
)  # fmt: skip

#: the collectives whose way is described to users, and the methods that are called otherwise
ALGORITHMS = {name: routine for name, routine in ROUTINES.items() if name not in ("send", "recv")}
OTHER_NAMES = {"exchange": "halo_exchange", "reduce_scatter_v": "reduce_scatter"}


def pages() -> dict[str, str]:
    """File names and their text."""
    return {
        "shmcoll.md": _page("shmcoll", _doc(shmcoll), _of_package()),
        "communicator.md": _page("Communicator", _doc(Communicator), _of_communicator()),
        "algorithms.md": _page("How each collective works", _ALGORITHMS, _of_collectives()),
        "mindspore.md": _page("shmcoll.mindspore", _doc(mindspore), _of_mindspore()),
        "nki.md": _page("shmcoll.nki", _doc(nki.collectives), _of_nki()),
        "mpi.md": _page("Functions of MPI", functions_of_mpi.INTRODUCTION, functions_of_mpi.sections()),
    }


_ALGORITHMS = """The algorithms and their costs. In the cost formulas n is the number of ranks, S the bytes of one
rank's array, a the time of one sync (a cache line there and back), b the time to copy one byte, g the time to reduce
one. `FLAT_BYTES`, `RING_BYTES` and the others are thresholds, which `shmbench tune` measures. A cell is a block of
shared memory of 256 KiB, of which each rank has two."""


def _page(title: str, introduction: str, sections: Iterator[str]) -> str:
    head = f"# {title}\n\n<!-- Made by docs/generate.py from the docstrings; edit those. -->\n\n{introduction}\n"
    return "\n".join([head, *sections])


def _of_package() -> Iterator[str]:
    for name in FUNCTIONS:
        yield _function(f"shmcoll.{name}", getattr(shmcoll, name))
    for cls in (Ranks, Work, Plan, Grid, Graph):
        yield _section(f"shmcoll.{cls.__name__}", _doc(cls))
        yield from _of_class(cls, f"{cls.__name__}.")
    for cls in (Send, Recv, SendObject, RecvObject):
        yield _function(f"shmcoll.{cls.__name__}", cls)
    yield _section("shmcoll.jit", _doc(jit))
    for name in jit.OPERATIONS:
        yield _function(f"jit.{name}", getattr(jit, name), "###")
    yield _section("Errors", _doc(errors))
    for name in sorted(errors.__all__, key=list(vars(errors)).index):
        yield _section(f"shmcoll.{name}", _doc(getattr(errors, name)), "###")


def _of_communicator() -> Iterator[str]:
    for cls in reversed(Communicator.__mro__[:-1]):
        yield from _of_class(cls, "", "##")


def _of_class(cls: type, prefix: str, level: str = "###") -> Iterator[str]:
    for name, member in vars(cls).items():
        if name.startswith("_") or name in HIDDEN.get(cls, ()):
            continue
        if isinstance(member, property):
            yield _section(f"{prefix}{name}", _doc(member), level)
        elif callable(member):
            yield _function(f"{prefix}{name}", member, level)
            if (way := OTHER_NAMES.get(name, name)) in ALGORITHMS:
                yield f"[How it works](algorithms.md#{way})\n"


#: what only shmcoll itself calls
HIDDEN: dict[type, tuple[str, ...]] = {Work: ("await_end", "settle"), nn.Cell: ("construct",)}


def _of_collectives() -> Iterator[str]:
    for name, routine in ALGORITHMS.items():
        yield _section(name, _for_users(sys.modules[routine.__module__]))
    yield _section("all_reduce and reduce by parts", _for_users(all_reduce_parts))


def _for_users(module: ModuleType) -> str:
    """What a routine does and costs: its docstring up to the first paragraph about the protocol or the arguments."""
    text = (inspect.getdoc(module) or "").removeprefix(f"{module.__name__.rpartition('.')[2]}: ")
    kept = list(takewhile(lambda part: not part.startswith(("Protocol", "Argument")), text.split("\n\n")))
    return "\n\n".join([kept[0][0].upper() + kept[0][1:], *kept[1:]])


def _of_mindspore() -> Iterator[str]:
    for cls in (mindspore.Tensor, mindspore.Parameter):
        yield _function(cls.__name__, cls)
        yield from _of_class(cls, f"{cls.__name__}.")
    yield from _of_modules(context)
    yield _section("nn.Cell", _doc(nn.Cell))
    yield from _of_class(nn.Cell, "Cell.")
    for cls in (nn.CellList, nn.SequentialCell):
        yield _section(f"nn.{cls.__name__}", _doc(cls))
    yield from _of_modules(mindspore.ops, mindspore.communication, mindspore.mint.distributed)
    for cls in (CommHandle, TCPStore):
        yield _function(f"mint.distributed.{cls.__name__}", cls)
        yield from _of_class(cls, f"{cls.__name__}.")
    yield from _of_modules(comm_func, communication)


_FUNCTIONS_OF_NKI = {
    "language": ("ndarray", "zeros", "fori_loop", "while_loop", "dynamic_range", "program_id", "num_programs"),
    "isa": (
        *("dma_copy", "tensor_copy", "memset", "core_barrier"),
        *("register_alloc", "register_load", "register_move", "register_store"),
    ),
}


def _of_nki() -> Iterator[str]:
    for function in (nki.jit, nki.simulate):
        yield _function(function.__name__, function)
    for module in (nki.collectives, nki.language, nki.isa):
        path = module.__name__.removeprefix("shmcoll.nki.")
        if module is not nki.collectives:
            yield _section(path, _doc(module))
        for name in getattr(module, "__all__", _FUNCTIONS_OF_NKI.get(path, ())):
            yield _function(f"{path}.{name}", getattr(module, name))
            if name == "ReplicaGroup":
                yield from _of_class(nki.collectives.ReplicaGroup, "ReplicaGroup.")


def _of_modules(*modules: ModuleType) -> Iterator[str]:
    for module in modules:
        path = module.__name__.removeprefix("shmcoll.").partition(".")[2]
        for name in getattr(module, "__all__", vars(module)):
            member = getattr(module, name)
            home = getattr(member, "__module__", "")
            if not name.startswith("_") and f"{home}.".startswith(f"{module.__name__}."):
                yield _function(f"{path}.{name}", member)


def _function(name: str, function: Callable[..., Any], level: str = "##") -> str:
    return _section(name, f"```python\n{name}{_signature(function)}\n```\n\n{_doc(function)}", level)


class _Any:
    def __repr__(self) -> str:
        return "ANY"


def _signature(function: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(function)
    except ValueError:
        return "(...)"
    parameters = [
        p.replace(annotation=p.empty, default=_Any() if p.default == shmcoll.ANY and _can_be_any(p.name) else p.default)
        for p in signature.parameters.values()
        if p.name not in ("self", "cls")
    ]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def _can_be_any(parameter: str) -> bool:
    return parameter in ("source", "tag", "recvtag")


def _section(name: str, text: str, level: str = "##") -> str:
    return f"{level} {name}\n\n{text}\n"


_TITLES = {"Args": "Arguments", "Returns": "Returns", "Raises": "Raises", "Example": "Example"}
_PART = re.compile(rf"^({'|'.join(_TITLES)}):\n((?:(?:    .*)?\n?)+)", re.MULTILINE)


def _doc(member: Any) -> str:
    """A docstring as Markdown."""
    text = (inspect.getdoc(member) or "").partition("PYTEST_DONT_REWRITE")[0]  # which is for pytest
    return _PART.sub(lambda part: _part(part[1], dedent(part[2]).strip("\n")), text).strip()


def _part(name: str, text: str) -> str:
    if name == "Example":
        return f"**Example**\n\n```pycon\n{text}\n```\n\n"
    if name == "Returns":
        return f"**Returns**\n\n{text}\n\n"
    items = re.sub(r"^(\*{0,2}\w+):", r"- `\1`:", text, flags=re.MULTILINE).replace("\n    ", "\n  ")
    return f"**{_TITLES[name]}**\n\n{items}\n\n"


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check compare them."""
    stale = []
    for path, text in (
        {FOLDER / name: text for name, text in pages().items()} | excerpts.pages() | measured.pages()
    ).items():
        if "--check" in arguments:
            stale += [path.name] if not path.exists() or path.read_text() != text else []
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if stale:
        print(f"docs: {', '.join(stale)} not what the source says; run python docs/generate.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
