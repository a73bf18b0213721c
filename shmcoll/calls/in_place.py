"""When `out` may share memory with x: one rule for every collective.

`out` may share memory with x in any way. The result is as if x had been copied before the call, as with numpy's
functions. x is really copied first, unless the routine works in place. The record of the collective
(`engine/collective.py`), which the native entry uses, too, determines where it does:

    ALIKE, CUTS              out=x
    GATHERS | OWN_PART       x is this rank's own part of `out`
    SCATTERS | OWN_PART      `out` is this rank's own part of x
    any other form           never

Only two things are refused: an `out` in which several elements share memory, and a list of arrays that overlap each
other.
"""

from collections.abc import Sequence

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.collectives import RECORDS
from shmcoll.engine.collective import ALIKE, CUTS, GATHERS, OWN_PART, SCATTERS

SAME, PART_OF_OUT, PART_OF_X, NOWHERE = (
    "`out=x`",
    "`x` is this rank's own part of `out`",
    "`out` is this rank's own part of `x`",
    "nowhere",
)

#: collectives with the routine of another one
_ROUTINES = {"reduce_scatter_v": "reduce_scatter"}


def works_in_place(operation: str) -> str:
    """Return a text that says when a collective needs no copy of an x that shares memory with `out`."""
    form = RECORDS[_ROUTINES.get(operation, operation)].form
    if form & (ALIKE | CUTS):
        return SAME
    if form & OWN_PART:
        return PART_OF_OUT if form & GATHERS else PART_OF_X if form & SCATTERS else NOWHERE
    return NOWHERE


def clear_of(
    array: np.ndarray, out: np.ndarray | None, mine: np.ndarray | None = None, place: np.ndarray | None = None
) -> np.ndarray:
    """Return `array`, or a copy if it shares memory with `out` and the routine cannot work in place. The routine works
    in place if `mine`, which is the array or a part of it, has exactly the memory of `place`, which is `out` or a part
    of it."""
    if out is None or not given.overlap(array, out):
        return array
    if mine is not None and place is not None and given.same_memory(mine, place):
        return array
    return array.copy()


def all_clear_of(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """Return each block of x, or a copy if it shares memory with a block of `out` that has another number."""
    return [
        source if all(_is_clear(source, target, i == j) for j, target in enumerate(targets)) else source.copy()
        for i, source in enumerate(sources)
    ]


def _is_clear(source: np.ndarray, target: np.ndarray | None, same_number: bool) -> bool:
    if target is None or not given.overlap(source, target):
        return True
    return same_number and given.same_memory(source, target)
