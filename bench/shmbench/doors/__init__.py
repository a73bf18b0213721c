"""What a front end (a door) adds to the native calls: one file for each, with a line for each of its operations.

A file has `calls(comm)`, which prepares all arguments and yields a `Call` for each operation, of 8 bytes per rank or
block. To measure one more operation, add a row.

A file may have `rivals(comm, quick)` as well, which yields a `Rivals` for each line of `shmbench compare --door`.
quick: whether short arrays are enough. Of libraries that cannot be in one process it has `apart`, whose calls
`bench/peers` makes in a job of each.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from shmbench.timing.ab_timing import Entry, Repeated

SPOILT = -1  # in outputs before a call; no rank sends it


@dataclass(frozen=True)
class Call:
    """An operation of a door, and the native call that a user would write instead.

    native, door: one operation each. They return their results, or write them into `outputs`.
    outputs: the array or list of arrays that the native call writes, and what the door writes; None if they return
        their results.
    calls: how many functions of the door `door` calls. Each may add as much as is asked of one call.
    """

    name: str
    native: Callable[[], Any]
    door: Callable[[], Any]
    outputs: tuple[Any, Any] | None = None
    calls: int = 1
    bytes: int = 8

    @property
    def entries(self) -> Mapping[str, Callable[[], Any]]:
        return {"native": self.native, "door": self.door}

    def timed(self) -> Mapping[str, Entry]:
        return _repeated(self)

    def mistakes(self, entry: Callable[[], Any]) -> int:
        return self.differences()

    def differences(self) -> int:
        """Make both calls. Returns how many elements of their results differ, or have not been written."""
        for array in _flat(self.outputs or []):
            array[...] = SPOILT
        returned = self.native(), self.door()
        native, door = map(_flat, returned if self.outputs is None else self.outputs)
        if [array.shape for array in native] != [array.shape for array in door]:
            return max(1, sum(array.size for array in door))
        pairs = zip(native, door, strict=True)
        return sum(int(np.count_nonzero((mine != theirs) | (theirs == SPOILT))) for mine, theirs in pairs)


@dataclass(frozen=True)
class Rivals:
    """An operation of the library that users come from, made through it in several ways.

    entries: one call each, by the name of the column. All use the same memory.
    given: writes the inputs, and outputs that are wrong.
    wrong: returns how many elements are wrong after `given` and one call.
    unit: what a call makes one of, if users ask for so many of these in a second.
    """

    name: str
    bytes: int
    entries: Mapping[str, Callable[[], Any]]
    given: Callable[[], None]
    wrong: Callable[[], int]
    calls: int = 1
    unit: str = ""

    def timed(self) -> Mapping[str, Entry]:
        return _repeated(self)

    def mistakes(self, entry: Callable[[], Any]) -> int:
        """Make the call. Returns how many elements are wrong."""
        self.given()
        entry()
        return self.wrong()


@dataclass(frozen=True)
class Apart:
    """An operation of libraries that cannot be in one process: a job of each measures it.

    timed: returns the entries of this process by name.
    """

    name: str
    bytes: int
    timed: Callable[[], Mapping[str, Entry]]
    calls: int = 1


def _repeated(call: Call | Rivals) -> Mapping[str, Entry]:
    return {name: Repeated(entry, partial(call.mistakes, entry)) for name, entry in call.entries.items()}


def _flat(results: Any) -> list[np.ndarray]:
    """Return the arrays, which share the memory of the tensors, of a tensor or of a list of them at any depth."""
    if isinstance(results, (list, tuple)):
        return [array for one in results for array in _flat(one)]
    return [np.asarray(results)]


def find(name: str, what: str = "calls") -> Callable[..., Iterator[Any]]:
    """Return the calls of the door called `name`, or its rivals. Raises `AttributeError` if it has none."""
    made: Callable[..., Iterator[Any]] = getattr(import_module(f"shmbench.doors.{name}"), what)
    return made
