"""Wrong calls of any object's methods: every parameter with every kind of value, arguments in every wrong order, too
many, too few, and under names that do not exist.

    for call in wrong_calls(comm, "comm", ["all_reduce", ...]): ...

A call is right apart from what is wrong on purpose. Some of these calls are right after all.
"""

import inspect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import shmcoll


def array(shape: Any = (4,), dtype: str = "f8") -> np.ndarray:
    return np.ones(shape, dtype)


#: arguments that are right in a group of one rank
RIGHT: dict[str, Any] = {
    "file": None,
    "x": array(), "out": array(), "op": "sum", "root": 0, "dest": 0, "source": 0, "tag": 1, "sendtag": 1, "recvtag": 1,
    "algorithm": None, "axis": None, "counts": [4], "send_counts": [4], "send_displs": [0], "recv_counts": [4],
    "recv_displs": [0], "recv_room": [4], "pairs": [(0, 0)], "split_axis": 0, "concat_axis": 0, "value": {"a": 1},
    "values": [{"a": 1}], "shape": (4,), "dtype": "f8", "color": 0, "key": 0, "ranks": [0], "name": "n", "dims": 1,
    "periods": False, "sources": [0], "destinations": [0], "messages": [], "rank": 0, "coords": 0, "axes": None,
    "width": 1, "keep": True, "distance": 1, "operation": "all_reduce", "timeout": 1.0,
    "function": max, "factor": 2, "commutative": True, "dtypes": None, "works": [], "fn": max, "nprocs": 1, "n": 1,
    "items": [1], "method": "fork", "on_failure": "stop", "array": array(),
}  # fmt: skip


#: arguments that the root must pass, though they have defaults
NEEDED = {"scatter_object": "values", "scatter_v": "send_counts"}


class Unwilling:
    """An object that raises when it is asked anything."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"not {name}")

    def __repr__(self) -> str:
        raise RuntimeError("not repr")


#: what people pass in place of anything
VALUES: dict[str, Any] = {
    "an array": array(), "text": "abc", "digits": "0", "zero": 0, "a half": 0.5, "one as a float": 1.0, "97": 97,
    "-97": -97, "2**70": 1 << 70, "a dict": {"a": 1}, "a list": [1, 2], "strings": ["a", "b"], "None": None,
    "dates": np.array(["2020-01-01"] * 4, "M8[D]"), "spans": np.ones(4, "m8[s]"), "records": np.ones(4, "i4,f4"),
    "text in an array": np.array(["a"] * 4), "wide floats": np.ones(4, "g"), "an object": object(), "...": ...,
    "an array of objects": np.array([None, {}]), "decimals": np.array([1, 2.5, 3, 4], object), "a function": max,
    "a ufunc": np.hypot, "a name in capitals": "SUM", "a name of numpy": "add", "True": True,
    "a long array": array((7, 4)), "integers": array((4,), "i4"), "a numpy scalar": np.float64(1), "negative": [-1],
    "masked": np.ma.masked_array(array(), True), "a type": int, "bytes": b"abc", "unwilling": Unwilling(),
    "an iterator": iter([1]),
}  # fmt: skip


@dataclass(frozen=True)
class WrongCall:
    """What is wrong with the call, in words, and the call."""

    what: str
    method: str
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)

    @property
    def is_of_right_values(self) -> bool:
        return bool(self.args)

    def bound(self, function: Any) -> dict[str, Any]:
        return inspect.signature(function).bind(*self.args, **self.keywords).arguments


def wrong_calls(owner: Any, methods: list[str]) -> Iterator[WrongCall]:
    for name in methods:
        parameters = inspect.signature(getattr(owner, name)).parameters
        usual = {p.name: p for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        required = {key: RIGHT[key] for key, p in usual.items() if p.default is p.empty or key == NEEDED.get(name)}
        for key in usual:
            if key not in ("async_op", "synchronous"):
                for kind, value in VALUES.items():
                    yield WrongCall(f"{name}({key}: {kind})", name, (), required | {key: value})
        positional = [key for key, p in usual.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        for n in range(2, len(positional) + 1):
            for order in _orders(positional[:n]):
                if list(order) != positional[:n]:
                    yield WrongCall(f"{name}({', '.join(order)})", name, tuple(RIGHT[key] for key in order))
        yield WrongCall(f"{name}: one too many", name, (*(RIGHT[key] for key in positional), 1))
        yield WrongCall(f"{name}: another name", name, (), required | {"nonsense": 1})
        if required:
            yield WrongCall(f"{name}: none", name)


def _orders(names: list[str]) -> Iterator[list[str]]:
    """All orders of a few names; of more names, those that exchange two, and those that move one."""
    if len(names) <= 4:
        yield from map(list, itertools.permutations(names))
        return
    for i, j in itertools.permutations(range(len(names)), 2):
        moved = names.copy()
        moved.insert(j, moved.pop(i))
        yield moved
        moved = names.copy()
        moved[i], moved[j] = moved[j], moved[i]
        yield moved


def public_methods(kind: type) -> list[str]:
    return [name for name, one in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]


PUBLIC = {name for name in shmcoll.__all__ if inspect.isclass(getattr(shmcoll, name))}
