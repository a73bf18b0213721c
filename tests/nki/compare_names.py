"""Compare the names and parameters of `shmcoll.nki` with those that AWS publishes: `published.txt`.

    python tests/nki/compare_names.py

It prints a line for each name or parameter that is missing here, is here only, or has another default.
"""

import ast
import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from shmcoll import nki

PUBLISHED = Path(__file__).with_name("published.txt")
MODULES = {"nki": nki, "nki.collectives": nki.collectives, "nki.language": nki.language, "nki.isa": nki.isa}
_EMPTY = inspect.Parameter.empty


def published() -> dict[str, str | None]:
    """Return what is published: names with their parameters, as in a `def`; None where these are not kept."""
    lines = [line.split(" ", 1)[1] for line in PUBLISHED.read_text().splitlines() if line and not line.startswith("#")]
    split = [line.partition("(") for line in lines]
    return {name: inside.removesuffix(")") if bracket else None for name, bracket, inside in split}


def differences() -> Iterator[tuple[str, str]]:
    """Yield what differs: a name, and how."""
    expected = published()
    for name, parameters in expected.items():
        ours = here(name)
        if ours is None:
            yield name, "is missing"
        elif parameters is not None:
            for how in differing(of_text(parameters), of_function(ours)):
                yield name, how
    for path, module in MODULES.items():
        for name, one in sorted(vars(module).items()):
            if f"{path}.{name}" not in expected and is_public(name, one):
                yield f"{path}.{name}", "is here only"


def here(name: str) -> Any:
    """Return what has this name here; None if it is missing."""
    found: Any = nki
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def is_public(name: str, one: Any) -> bool:
    """Return whether a module offers this name: what it only imports is not its own."""
    if name.startswith("_") or inspect.ismodule(one):
        return False
    is_number = isinstance(one, np.ufunc) or (isinstance(one, type) and issubclass(one, np.generic))
    ours = is_number or str(getattr(one, "__module__", "")).startswith("shmcoll.nki")
    return ours if callable(one) else name.islower()


def of_text(parameters: str) -> dict[str, str]:
    """Return parameters with the text of their defaults; "" without one. `*args` and `**kwargs` keep their stars."""
    head = ast.parse(f"def f({parameters}): pass").body[0]
    assert isinstance(head, ast.FunctionDef)
    given = head.args
    by_place = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(by_place) - len(given.defaults)) + [*given.defaults]
    found = {one.arg: ast.unparse(default) if default else "" for one, default in zip(by_place, defaults, strict=True)}
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found[one.arg] = ast.unparse(default) if default else ""
    return found | ({f"**{given.kwarg.arg}": ""} if given.kwarg else {})


def of_function(function: Any) -> dict[str, str]:
    found = {}
    for one in inspect.signature(function).parameters.values():
        stars = "**" if one.kind is one.VAR_KEYWORD else ""
        found[stars + one.name] = "" if one.default is _EMPTY else shown(one.default)
    return found


def shown(default: Any) -> str:
    """Return a default as a page shows it."""
    return str(default) if isinstance(default, Enum) else repr([*default]) if type(default) is tuple else repr(default)


def differing(theirs: dict[str, str], ours: dict[str, str]) -> Iterator[str]:
    common = [name for name in theirs if name in ours]
    yield from (f"lacks {name}" for name in theirs if name not in ours)
    yield from (f"has {name}, which is here only" for name in ours if name not in theirs)
    if common != [name for name in ours if name in theirs]:
        yield f"has the parameters in the order {', '.join(ours)}"
    for name in common:
        if ours[name] != theirs[name]:
            yield f"has {name}={ours[name]} instead of {theirs[name] or 'none'}"


if __name__ == "__main__":
    for name, how in differences():
        print(f"{name} {how}")
