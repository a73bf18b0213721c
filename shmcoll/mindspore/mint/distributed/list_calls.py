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


def collect(comm: Any, call: Callable[..., Any], *arguments: Any, out: Sequence[np.ndarray], async_op: bool) -> Any:
    """Make a call that writes a list of arrays of one shape. Arrays may share memory: then what the last of the ranks
    has sent stays.

    Args:
        comm: the communicator.
        call: its method, `gather` or `all_gather`.
        arguments: those of the call before `out`.
        out: the arrays.
        async_op: as for the call.
    """
    if not async_op or not _share_memory(out):
        try:
            return call(*arguments, out=out, async_op=async_op)
        except ValueError:  # nothing has been sent
            if not _share_memory(out):
                raise
    through_copies = _gather if call == comm.gather else _all_gather
    if async_op:
        return comm._submit(through_copies, *arguments, out)
    return calls.perform(through_copies, comm._dispatcher, (*arguments, out))


def all_gather_unequal(comm: Any, x: np.ndarray, out: Sequence[np.ndarray], *, async_op: bool) -> Any:
    """Gather arrays of different shapes."""
    if async_op:
        return comm._submit(_all_gather_unequal, x, out)
    counts = [one.size for one in out]
    _copy_parts(comm.all_gather_v(x, recv_counts=counts)[0], out)
    return None


def all_to_all(comm: Any, x: Sequence[np.ndarray], out: Sequence[np.ndarray], *, async_op: bool) -> Any:
    """Send array i of x to rank i, whatever their shapes."""
    if async_op:
        return comm._submit(_all_to_all, x, out)
    sizes, counts = [one.size for one in x], [one.size for one in out]
    found = np.empty(sum(counts), out[0].dtype)
    comm.all_to_all_v(joined(x), sizes, recv_counts=counts, out=found)
    _copy_parts(found, out)
    return None


def joined(x: Sequence[np.ndarray]) -> np.ndarray:
    """Return the elements of all arrays as one."""
    return np.concatenate([one.ravel() for one in x]) if len(x) > 1 else x[0].ravel()


# --- in the worker ----------------------------------------------------------------------------------------------------


def _gather(dispatcher: Any, x: np.ndarray, root: int, out: Sequence[np.ndarray]) -> None:
    found = [np.empty_like(one, order="C") for one in out]
    calls.gather(dispatcher, x, root, found)
    _copy(found, out)


def _all_gather(dispatcher: Any, x: np.ndarray, out: Sequence[np.ndarray]) -> None:
    found = [np.empty_like(one, order="C") for one in out]
    calls.all_gather(dispatcher, x, found)
    _copy(found, out)


def _all_gather_unequal(dispatcher: Any, x: np.ndarray, out: Sequence[np.ndarray]) -> None:
    counts = [one.size for one in out]
    _copy_parts(calls.all_gather_v(dispatcher, x, counts, None, None, None)[0], out)


def _all_to_all(dispatcher: Any, x: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
    sizes, counts = [one.size for one in x], [one.size for one in out]
    _copy_parts(calls.all_to_all_v(dispatcher, joined(x), sizes, None, counts, None, None, None, None)[0], out)


def _share_memory(arrays: Sequence[np.ndarray]) -> bool:
    return any(np.shares_memory(one, other) for one, other in combinations(arrays, 2))


def _copy_parts(found: np.ndarray, out: Sequence[np.ndarray]) -> None:
    first = 0
    for place in out:
        end = first + place.size
        part = found[first:end]
        place[...] = part if place.ndim == 1 else part.reshape(place.shape)
        first = end


def _copy(found: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
    for one, place in zip(found, out, strict=True):
        place[...] = one
