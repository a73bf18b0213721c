"""collective_permute: its arguments and its call."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll import arguments as given
from shmcoll.calls.common import deliver, exact, place_for
from shmcoll.collectives.collective_permute import NOBODY
from shmcoll.engine.counts import mark_of

if TYPE_CHECKING:
    from shmcoll.caller import Caller


def collective_permute(caller: "Caller", x: Any, pairs: Any, out: Any) -> Any:
    with caller.checking("collective_permute") as check:
        array = given.as_array(x, *check)
        targets = _as_permutation(pairs, caller.size, *check)
        if out is not None:
            given.as_output(out, array.shape, array.dtype, *check)
            given.check_overlap(x if isinstance(x, np.ndarray) else array, out, *check)
    source = next((s for s, t in targets.items() if t == caller.rank), NOBODY)
    target = targets.get(caller.rank, NOBODY)
    words = np.array([*sorted(targets.items())], np.int64).reshape(-1)
    mark = mark_of(words.ctypes.data, words.size)
    place = place_for(out, array.shape, array.dtype)
    caller.run("collective_permute", exact(array), place, 0, mark, 0, 0, source, target)
    return deliver(place, out)


def _as_permutation(pairs: Any, size: int, operation: str, rank: int) -> dict[int, int]:
    """Source to target, of pairs in any order."""
    if not isinstance(pairs, Iterable):
        raise TypeError(
            f"{operation} on rank {rank}: pairs must be a sequence of (source, target), got {type(pairs).__name__}"
        )
    targets: dict[int, int] = {}
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Iterable) or len(both := list(pair)) != 2:
            raise TypeError(f"{operation} on rank {rank}: {pair!r} in pairs is no pair (source, target)")
        source = given.as_peer(both[0], "source", size, operation, rank)
        target = given.as_peer(both[1], "target", size, operation, rank)
        for known, peer, role in ((targets, source, "source"), (targets.values(), target, "target")):
            if peer in known:
                raise ValueError(f"{operation} on rank {rank}: rank {peer} is the {role} of two pairs; one is allowed")
        targets[source] = target
    return targets
