"""collective_permute, the ring of the implicit permutes, and the numbers of ranks.

In a ring of n ranks, position p sends to (p + 1) mod n. The data of position (p - i) mod n have arrived after i steps.
All channels go around the same ring. A call may use any of them, such as channel 1 alone.

Sources: the documentation of `nki.collectives` in the Neuron SDK, 2.30 to 2.33. It does not say whether the number of
`collective_permute_implicit_current_processing_rank_id` is a rank of the job or a position. AWS's kernels use it as an
index into an array of n blocks for n ranks of a list, so it is the position.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import shmcoll
from shmcoll.calls.collective_permute import as_pairs
from shmcoll.communicator import Communicator
from shmcoll.nki.registers import VirtualRegister
from shmcoll.nki.replica_group import ReplicaGroup, joined
from shmcoll.nki.tensors import (
    OPERATORS,
    check_priority,
    check_tensors,
    in_our_words,
    only_pair,
    only_tensor,
    rank_in_words,
    reduction,
)

_FIRST = (0,)  # the default of channel_ids
_FUNCTIONS = {name: function for function, name in OPERATORS.items()}


def collective_permute(
    srcs: Sequence[np.ndarray],
    dsts: Sequence[np.ndarray],
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send the tensor of each source to its target. All ranks of the job make the call.

    Args:
        srcs: a list of one array. Shape and dtype are equal on all ranks.
        dsts: a list of one array of the same shape and dtype. On a rank that is not a target it becomes zero, as in
            XLA.
        source_target_pairs: pairs (source, target) of ranks of the job, equal on all ranks. A rank is at most once a
            source and at most once a target.
        priority: 0 to 3, or None; has no effect.
        name: a label, which has no effect.

    Raises:
        TypeError: `source_target_pairs` is not a sequence of pairs of integers, or the dtypes differ.
        ValueError: a rank does not exist or is named twice, or the shapes differ.
    """
    src, dst = only_pair(srcs, dsts, "collective_permute")
    if priority is not None:
        check_priority(priority, "collective_permute")
    comm = shmcoll.init()
    try:
        comm.collective_permute(src, source_target_pairs, out=dst)
    except (TypeError, ValueError) as error:
        raise in_our_words(error, _check_permute, src, dst, source_target_pairs, comm) from error.__cause__


def collective_permute_implicit(
    srcs_by_channel: Sequence[Sequence[np.ndarray]],
    dsts_by_channel: Sequence[Sequence[np.ndarray]],
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = _FIRST,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send a tensor to the next rank of the list, and receive one from the rank before; the list is a ring.

    Args:
        srcs_by_channel: for each channel, a list of one array. Shapes and dtypes are equal on all ranks of the list.
        dsts_by_channel: for each channel, a list of one array of the same shape and dtype.
        replica_group: which ranks take part.
        channel_ids: a number for each channel, all different.
        priority: 0 to 3, or None; has no effect.
        name: a label, which has no effect.

    Raises:
        TypeError: a list is not one, a channel is not an integer, or the dtypes differ.
        ValueError: the shapes differ, the channels differ in number or are not all different, or this rank is in no
            rank-list.
    """
    operation = "collective_permute_implicit"
    if priority is not None:
        check_priority(priority, operation)
    srcs = _by_channel(srcs_by_channel, "srcs_by_channel", channel_ids, operation)
    dsts = _by_channel(dsts_by_channel, "dsts_by_channel", channel_ids, operation)
    comm, size = joined(replica_group, operation)
    _send_around(srcs, dsts, comm, size, operation, "srcs_by_channel[{}][0]")


def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Sequence[np.ndarray]],
    srcs1_by_channel: Sequence[Sequence[np.ndarray]],
    dsts_by_channel: Sequence[Sequence[np.ndarray]],
    replica_group: ReplicaGroup,
    op: Any,
    channel_ids: Sequence[int] = _FIRST,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Reduce two tensors of this rank, and send the result to the next rank of the list, which is a ring.

    Args:
        srcs0_by_channel: for each channel, a list of one array, the left operand. Shapes and dtypes are equal on all
            ranks of the list.
        srcs1_by_channel: for each channel, a list of one array of the same shape and dtype, the right operand.
        dsts_by_channel: for each channel, a list of one array of the same shape and dtype, for the result of the rank
            before.
        replica_group: which ranks take part.
        op: `nl.add`, `nl.minimum` or `nl.maximum`.
        channel_ids: a number for each channel, all different.
        priority: 0 to 3, or None; has no effect.
        name: a label, which has no effect.

    Raises:
        TypeError: a list is not one, a channel is not an integer, `op` is another operator, or the dtypes differ.
        ValueError: the shapes differ, the channels differ in number or are not all different, or this rank is in no
            rank-list.
    """
    operation = "collective_permute_implicit_reduce"
    if priority is not None:
        check_priority(priority, operation)
    function = _FUNCTIONS[reduction(op, operation)]
    left = _by_channel(srcs0_by_channel, "srcs0_by_channel", channel_ids, operation)
    right = _by_channel(srcs1_by_channel, "srcs1_by_channel", channel_ids, operation)
    dsts = _by_channel(dsts_by_channel, "dsts_by_channel", channel_ids, operation)
    results = []
    for i, a in enumerate(left):
        b = right[i]
        if a.dtype is not b.dtype and a.dtype != b.dtype:
            raise TypeError(
                f"{operation}: srcs1_by_channel[{i}][0] has dtype {b.dtype}, srcs0_by_channel[{i}][0] has {a.dtype}"
            )
        if a.shape != b.shape:
            raise ValueError(
                f"{operation}: srcs1_by_channel[{i}][0] has shape {b.shape}, srcs0_by_channel[{i}][0] has {a.shape}"
            )
        result = function(a, b)
        results.append(result if type(result) is np.ndarray else np.asarray(result))
    comm, size = joined(replica_group, operation)
    _send_around(results, dsts, comm, size, operation, "srcs0_by_channel[{}][0]")


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int, replica_group: ReplicaGroup, channel_id: int = 0, name: str | None = None
) -> int:
    """Return whose data this rank has after so many steps around the ring, as a position in the list.

    Args:
        iteration_id: the number of steps, an integer or a register; 0 for this rank's own data.
        replica_group: which ranks form the ring.
        channel_id: the channel; all channels go around the same ring.
        name: a label, which has no effect.

    Returns:
        (p - iteration_id) mod n, for position p of n.

    Raises:
        TypeError: a number is not an integer.
        ValueError: a number is negative, or this rank is in no rank-list.
    """
    operation = "collective_permute_implicit_current_processing_rank_id"
    if isinstance(iteration_id, VirtualRegister):  # of a loop
        iteration_id = int(iteration_id)
    _check_number(iteration_id, "iteration_id", operation)
    _check_number(channel_id, "channel_id", operation)
    comm, size = joined(replica_group, operation)
    return int((comm.rank - iteration_id) % size)


def rank_id(name: str | None = None) -> int:
    """Return this rank's number in the job.

    Args:
        name: a label, which has no effect.
    """
    return shmcoll.init().rank


@lru_cache(maxsize=64)
def _ring(size: int) -> tuple[tuple[int, int], ...]:
    return tuple((p, (p + 1) % size) for p in range(size))


def _send_around(
    srcs: list[np.ndarray], dsts: list[np.ndarray], comm: Communicator, size: int, operation: str, name: str
) -> None:
    """Send each tensor to the next rank. name: what the user calls a source, with {} for the channel."""
    if len(srcs) > 1:
        _check_ring(srcs, dsts, comm, operation, name)
    ring = _ring(size)
    try:
        for i, src in enumerate(srcs):
            comm.collective_permute(src, ring, out=dsts[i])
    except (TypeError, ValueError) as error:
        raise in_our_words(error, _check_ring, srcs, dsts, comm, operation, name) from error.__cause__


def _check_permute(src: np.ndarray, dst: np.ndarray, pairs: Any, comm: Communicator) -> None:
    """Raise the error of an argument that `collective_permute` cannot take."""
    check_tensors([(src, dst)], _shape, "collective_permute", comm)
    as_pairs(pairs, "collective_permute", rank_in_words(comm), "source_target_pairs")


def _check_ring(srcs: list[np.ndarray], dsts: list[np.ndarray], comm: Communicator, operation: str, name: str) -> None:
    """Raise the error of the first tensor that a call cannot take."""
    pairs = list(zip(srcs, dsts, strict=True))
    check_tensors(pairs, _shape, operation, comm, names=(name, "dsts_by_channel[{}][0]"))


def _shape(src: np.ndarray) -> tuple[int, ...]:
    return src.shape


def _check_number(value: Any, what: str, operation: str) -> None:
    """Raise `TypeError` or `ValueError` unless this is an integer that is not negative."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, np.integer)):
        raise TypeError(f"{operation}: {what} must be an integer, got {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{operation}: {what} must not be negative, got {value}")


def _by_channel(lists: Any, what: str, channel_ids: Any, operation: str) -> list[np.ndarray]:
    """Return the one tensor of each channel."""
    if channel_ids is _FIRST and type(lists) is list and len(lists) == 1:  # the common call
        only = lists[0]
        if type(only) is list and len(only) == 1 and type(only[0]) is np.ndarray:
            return only
    if not isinstance(lists, (list, tuple)):
        raise TypeError(
            f"{operation}: {what} must be a list with a list for each channel, such as [[x]], "
            f"got {type(lists).__name__}"
        )
    if not isinstance(channel_ids, (list, tuple)):
        raise TypeError(f"{operation}: channel_ids must be a list of integers, got {type(channel_ids).__name__}")
    for channel in channel_ids:
        _check_number(channel, "a number of channel_ids", operation)
    if not lists or len(set(channel_ids)) != len(lists) or len(channel_ids) != len(lists):
        raise ValueError(
            f"{operation}: channel_ids must be different numbers for the {len(lists)} channels of {what}, "
            f"got {channel_ids!r}"
        )
    return [only_tensor(tensors, f"{what}[{i}]", operation) for i, tensors in enumerate(lists)]
