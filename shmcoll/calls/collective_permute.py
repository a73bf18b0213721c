"""collective_permute: its arguments and its call."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import deliver, exact, place_for
from shmcoll.calls.common_dtype import agreeing, move
from shmcoll.calls.in_place import clear_of
from shmcoll.collectives.collective_permute import NOBODY
from shmcoll.engine.kernels.element_marks import element_mark
from shmcoll.engine.native.entry_counts import mark_of
from shmcoll.engine.system.text import shown
from shmcoll.runtime.dispatcher import Dispatcher


@agreeing
def collective_permute(dispatcher: Dispatcher, x: Any, pairs: Any, out: Any) -> Any:
    with dispatcher.checking("collective_permute") as check:
        array = given.as_moved(x, *check)
        first, pairs_mark, _, *more = route_of(as_pairs(pairs, *check), dispatcher.size, dispatcher.rank, *check)
        if out is not None:
            given.as_output(out, array.shape, array.dtype, *check)
            array = clear_of(array, out, array, out)

    def run() -> Any:
        place = place_for(out, array.shape, array.dtype)
        words = first, pairs_mark, element_mark(array.dtype), *more
        dispatcher.run("collective_permute", exact(array), exact(place), *words)
        return deliver(place, out)

    return move(dispatcher, "collective_permute", array.dtype, out, run)


@lru_cache(maxsize=64)
def route_of(pairs: tuple[tuple[Any, ...], ...], size: int, rank: int, operation: str, name: int) -> tuple[int, ...]:
    """Return the arguments of the native entry behind the arrays, on rank `rank` of the group. name: that rank in
    messages."""
    targets = _as_permutation(pairs, size, operation, name)
    source = next((s for s, t in targets.items() if t == rank), NOBODY)
    words = np.array([*sorted(targets.items())], np.int64).reshape(-1)
    return 0, mark_of(words.ctypes.data, words.size), 0, 0, source, targets.get(rank, NOBODY)


def as_pairs(pairs: Any, operation: str, rank: int, name: str = "pairs") -> tuple[tuple[Any, ...], ...]:
    """Return pairs as tuples of integers. Raises `TypeError` if they are not pairs. name: what the user calls them."""
    if not _is_listed(pairs):
        raise TypeError(
            f"{operation} on rank {rank}: {name} must be a sequence of (source, target), got {type(pairs).__name__}"
        )
    found = []
    for pair in pairs:
        if isinstance(pair, str) or not _is_listed(pair) or len(both := tuple(pair)) != 2:
            raise TypeError(f"{operation} on rank {rank}: {shown(pair)} in {name} is not a pair (source, target)")
        found.append(
            tuple(given.as_index(*one, operation, rank) for one in zip(both, ("source", "target"), strict=True))
        )
    return tuple(found)


def _is_listed(value: Any) -> bool:
    return isinstance(value, Iterable) and getattr(value, "shape", None) != ()  # numpy calls 0-d arrays iterable, too


def _as_permutation(pairs: tuple[tuple[Any, ...], ...], size: int, operation: str, rank: int) -> dict[int, int]:
    """Return a dict from source to target, from pairs in any order."""
    targets: dict[int, int] = {}
    for one, another in pairs:
        source = given.as_peer(one, "source", size, operation, rank)
        target = given.as_peer(another, "target", size, operation, rank)
        for known, peer, role in ((targets, source, "source"), (targets.values(), target, "target")):
            if peer in known:
                raise ValueError(f"{operation} on rank {rank}: rank {peer} is the {role} of two pairs; one is allowed")
        targets[source] = target
    return targets
