"""What a wrong program is: one function, told whether it is to be wrong, and what it must be told then.

The classes are those of the MPI Bugs Initiative. MPI-CorrBench has the same errors under other names: ArgError,
ArgMismatch, MisplacedCall, MissingCall. Each function is also the right program, which differs from the wrong one in
one thing and must not be told anything. Functions have a communicator of their own, of three ranks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

#: the type of an error, and a pattern that its text fits
Told = tuple[type[BaseException], str]

ODD = 1  # the rank that makes the mistake, if one does
X = np.arange(8.0)


@dataclass(frozen=True)
class Program:
    """call: makes it, with a communicator and whether it is wrong. told: what each rank is told that is told anything.
    lines: patterns of the lines on stderr. check: whether it needs SHMCOLL_CHECK. limit: of a wait, if it ends by
    that."""

    name: str
    kind: str
    call: Callable[[Any, bool], Any]
    told: dict[int, Told]
    lines: tuple[str, ...]
    check: bool
    limit: float | None


PROGRAMS: list[Program] = []


def program(
    kind: str,
    *,
    everyone: Told | None = None,
    odd: Told | None = None,
    others: Told | None = None,
    ranks: dict[int, Told] | None = None,
    lines: tuple[str, ...] = (),
    check: bool = False,
    limit: float | None = None,
) -> Callable[[Callable[[Any, bool], Any]], Callable[[Any, bool], Any]]:
    """List a program. everyone, odd, others, ranks: what all ranks, the odd one, the others, or these are told."""
    told = dict.fromkeys(range(3), everyone or others) | {ODD: everyone or odd} | (ranks or {})

    def add(call: Callable[[Any, bool], Any]) -> Callable[[Any, bool], Any]:
        told_only = {rank: one for rank, one in told.items() if one}
        PROGRAMS.append(Program(call.__name__, kind, call, told_only, lines, check, limit))
        return call

    return add


def is_odd(comm: Any, wrong: bool) -> bool:
    """Return whether this rank makes the mistake."""
    return wrong and comm.rank == ODD
