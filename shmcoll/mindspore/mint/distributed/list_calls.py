"""Calls whose results are arrays that the communicator cannot write one by one: arrays of different shapes, or arrays
that share memory. The result is received in memory of its own and copied when it is complete.

An asynchronous call makes the copy in the worker, before its `Work` is done. So the results arrive although nobody
waits.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from shmcoll import calls
from shmcoll.communicator import Communicator


def run(comm: Communicator, call: Callable[..., Any], *arguments: Any, async_op: bool) -> Any:
    """Make one of the calls below, now or in the worker. It returns a `Work` if asynchronous."""
    if async_op:
        return comm._submit(call, *arguments)
    return calls.perform(call, comm._dispatcher, arguments)


def collect(comm: Communicator, operation: str, *arguments: Any, out: Sequence[np.ndarray], async_op: bool) -> Any:
    """Make a call that writes a list of arrays of one shape, "gather" or "all_gather". Arrays may share memory."""
    through_copies: Callable[..., Any] = gather if operation == "gather" else all_gather
    if async_op and _share_memory(out):
        return run(comm, through_copies, *arguments, out, async_op=True)
    try:
        return getattr(comm, operation)(*arguments, out=out, async_op=async_op)
    except ValueError:  # nothing has been sent
        if not _share_memory(out):
            raise
    return run(comm, through_copies, *arguments, out, async_op=False)


def _share_memory(arrays: Sequence[np.ndarray]) -> bool:
    return any(np.shares_memory(one, other) for one, other in combinations(arrays, 2))


def gather(dispatcher: Any, x: np.ndarray, root: int, out: Sequence[np.ndarray]) -> None:
    """Gather into arrays that share memory. Of what is written twice, the last rank's stays."""
    found = [np.empty_like(one, order="C") for one in out]
    calls.gather(dispatcher, x, root, found)
    _copy(found, out)


def all_gather(dispatcher: Any, x: np.ndarray, out: Sequence[np.ndarray]) -> None:
    """Gather into arrays that share memory, as `gather`."""
    found = [np.empty_like(one, order="C") for one in out]
    calls.all_gather(dispatcher, x, found)
    _copy(found, out)


def all_gather_unequal(dispatcher: Any, x: np.ndarray, out: Sequence[np.ndarray]) -> None:
    """Gather arrays of different shapes."""
    counts = [one.size for one in out]
    found, _ = calls.all_gather_v(dispatcher, x, counts, None, None, None)
    _copy(_parts(found, counts), out)


def all_to_all(dispatcher: Any, x: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
    """Send array i of x to rank i, whatever their shapes."""
    counts = [one.size for one in out]
    found, _ = calls.all_to_all_v(dispatcher, joined(x), [one.size for one in x], None, counts, None, None, None, None)
    _copy(_parts(found, counts), out)


def joined(x: Sequence[np.ndarray]) -> np.ndarray:
    """Return the elements of all arrays as one."""
    return np.concatenate([one.reshape(-1) for one in x])


def _parts(found: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    return np.split(found, np.cumsum(counts[:-1]))


def _copy(found: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
    for one, place in zip(found, out, strict=True):
        place[...] = one.reshape(place.shape)
