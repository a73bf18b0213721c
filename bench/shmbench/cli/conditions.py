"""The conditions of a measurement: which arrays are used in turn, where they are, and what else works meanwhile.

`shmbench` and `shmbench compare` take them (`--beside` only the latter). Every report names them. `shmbench diff` and
`shmbench plot` refuse to put results of different ones side by side. Nothing here loads numpy.
"""

import argparse
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shmbench.cli.flags import at_least
from shmbench.cli.sizes import short_size

MOST_PAIRS = 16
ROTATION_BYTES = 256 << 20  # of a rank


@dataclass(frozen=True)
class Neighbour:
    """Another program that computes. duty: percent of one core. core: its core, None for any that we may use. memory:
    it copies arrays which no cache holds, and so takes bandwidth as well."""

    duty: int
    core: int | None = None
    memory: bool = False

    def __str__(self) -> str:
        return f"{self.duty}{'' if self.core is None else f'@{self.core}'}{':memory' if self.memory else ''}"


@dataclass(frozen=True)
class Conditions:
    """buffers: the number of pairs of arrays that calls use in turn. "auto" is `MOST_PAIRS`, or as many as fit into
    `ROTATION_BYTES` of each rank, and at least one. beside: the number of other jobs of the same library.
    share_arrays: shmcoll's long arrays are in shared memory."""

    buffers: int | Literal["auto"] = "auto"
    neighbour: Neighbour | None = None
    beside: int = 0
    share_arrays: bool = False

    def __str__(self) -> str:
        words = [f"buffers: {self.buffers} ({self._buffers()})"]
        if self.share_arrays:
            words.append("shmcoll's arrays in shared memory")
        if self.neighbour:
            core = "one core" if self.neighbour.core is None else f"core {self.neighbour.core}"
            copying = ", copying memory" if self.neighbour.memory else ""
            words.append(f"neighbour: {self.neighbour.duty}% of {core}{copying}")
        if self.beside:
            words.append(f"beside: {self.beside} more job{'s' if self.beside > 1 else ''} of the same library")
        return "; ".join(words)

    def _buffers(self) -> str:
        if self.buffers == "auto":
            return f"up to {MOST_PAIRS} pairs of arrays in turn, within {short_size(ROTATION_BYTES)} of a rank"
        return "the same arrays in every call" if self.buffers == 1 else "pairs of arrays in turn"

    def flags(self) -> list[str]:
        """Return the words of a command line that ask a run for them; other jobs are not its affair."""
        shared = ["--share-arrays"] if self.share_arrays else []
        disturbed = ["--disturb", str(self.neighbour)] if self.neighbour else []
        return ["--buffers", str(self.buffers), *shared, *disturbed]


def conditions_of(document: Mapping[str, Any]) -> Conditions:
    """Return the conditions of a table in JSON. Tables that name none were measured under the default ones."""
    found = dict(document.get("options", {}).get("conditions", {}))
    if neighbour := found.get("neighbour"):
        found["neighbour"] = Neighbour(**neighbour)
    return Conditions(**found)


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--buffers", type=_buffers, default="auto", metavar="N",
        help="pairs of arrays that calls use in turn. 1: the same arrays in every call, which caches may hold; auto: "
        f"up to {MOST_PAIRS}, within {short_size(ROTATION_BYTES)} of a rank (auto)")  # fmt: skip
    add("--share-arrays", action="store_true", help="shmcoll's arrays of 64 KiB and more are in shared memory")
    add("--disturb", type=_neighbour, metavar="DUTY[@CORE][:memory]",
        help="another process computes meanwhile, for this percentage of one core: 30, or 30@1 on core 1; 30:memory: "
        "it copies long arrays")  # fmt: skip


def conditions_from(given: argparse.Namespace) -> Conditions:
    """Return what the flags ask for."""
    return Conditions(given.buffers, given.disturb, getattr(given, "beside", 0), given.share_arrays)


def complaint(conditions: Conditions, ranks: int, largest: int) -> str | None:
    """Return why there cannot be such a neighbour, or so many arrays of `largest` bytes, or None. It is for a process
    that starts ranks: a rank may be bound to fewer cores."""
    neighbour, cores = conditions.neighbour, os.sched_getaffinity(0)
    if neighbour and neighbour.core not in (None, *cores):
        allowed = ", ".join(map(str, sorted(cores)))
        return f"--disturb {neighbour}: core {neighbour.core} is not allowed here; choose one of {allowed}"
    if conditions.buffers == "auto":
        return None
    needed, there = 2 * largest * conditions.buffers * ranks, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed <= there:
        return None
    return (
        f"--buffers {conditions.buffers}: {ranks} ranks with as many pairs of arrays of {short_size(largest)} need "
        f"{needed / (1 << 30):.1f} GiB, and this machine has {there / (1 << 30):.1f}"
    )


def _buffers(text: str) -> int | str:
    return text if text == "auto" else at_least(1)(text)


def _neighbour(text: str) -> Neighbour:
    match = re.fullmatch(r"(\d{1,3})%?(?:@(\d{1,4}))?(:memory)?", text, flags=re.ASCII)
    if not match or not 1 <= int(match[1]) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage of a core: write 1 to 100, or 30@1 for core 1")
    return Neighbour(int(match[1]), None if match[2] is None else int(match[2]), match[3] is not None)
