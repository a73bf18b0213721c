"""The exchange of arrays of known shapes with some ranks, as one all_to_all_v of the group.

All ranks of the group take part, also those that have no neighbours. So a length that is not the expected one is an
error on all ranks.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from shmcoll.communicator import Communicator


class Plan(NamedTuple):
    """What an exchange of arrays of known shapes sends and receives."""

    size: int  # of the group
    order: list[int] | None  # of the arrays, by the ranks that they go to; None if they are in order
    sent: list[int]  # elements by rank
    received: list[int]  # elements by rank
    parts: list[tuple[slice, tuple[int, ...]]]  # where the arrays expected are in the result, and their shapes
    result: tuple[int, ...]  # the shape of the result: that of the only array, or the number of elements of all

    @classmethod
    def of(
        cls, size: int, sent: Sequence[tuple[int, tuple[int, ...]]], expected: Sequence[tuple[int, tuple[int, ...]]]
    ) -> "Plan":
        """Return the plan for a group of `size` ranks. sent, expected: pairs (rank, shape).

        Raises:
            ValueError: a rank does not exist.
        """
        order = sorted(range(len(sent)), key=lambda i: sent[i][0])
        for rank in (*sorted(rank for rank, _ in sent), *(rank for rank, _ in expected)):
            if not 0 <= rank < size:
                raise ValueError(f"Rank {rank} is not in the group: its ranks are 0 to {size - 1}.")
        outgoing, incoming = _elements(size, sent), _elements(size, expected)
        begins = [sum(incoming[:rank]) for rank in range(size)]
        parts = []
        for rank, shape in expected:
            begin, begins[rank] = begins[rank], begins[rank] + prod(shape)
            parts.append((slice(begin, begins[rank]), shape))
        result = expected[0][1] if len(expected) == 1 else (sum(incoming),)
        return cls(size, None if order == sorted(order) else order, outgoing, incoming, parts, result)


def exchange(comm: Communicator, plan: Plan, tensors: Sequence[np.ndarray], dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Send arrays to some ranks and receive arrays of known shapes from some.

    Args:
        comm: the group; all its ranks call this.
        plan: for a group of this size.
        tensors: arrays of `dtype` and of the shapes of the plan.
        dtype: that of all arrays.

    Returns:
        The arrays received. Their elements are parts of one array.

    Raises:
        ValueError: on all ranks, a size is not the expected one.
    """
    if plan.order is not None:
        tensors = [tensors[i] for i in plan.order]
    if len(tensors) == 1:
        flat = tensors[0].ravel()
    else:
        flat = np.concatenate([x.ravel() for x in tensors]) if tensors else np.empty(0, dtype)
    result = np.empty(plan.result, dtype)
    comm.all_to_all_v(flat, plan.sent, recv_counts=plan.received, out=result)
    if len(plan.parts) == 1:
        return (result,)
    return tuple([result[part].reshape(shape) for part, shape in plan.parts])


def _elements(size: int, arrays: Sequence[tuple[int, tuple[int, ...]]]) -> list[int]:
    """Return how many elements go to, or come from, each of `size` ranks. arrays: pairs (rank, shape)."""
    found = [0] * size
    for rank, shape in arrays:
        found[rank] += prod(shape)
    return found
