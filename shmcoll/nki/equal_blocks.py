"""The collectives of equal blocks. Several tensors in one call move one after the other.

Sources: the documentation of `nki.collectives` in the Neuron SDK, 2.30 to 2.33.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shmcoll.calls.arrays import whole_shape
from shmcoll.communicator import Communicator
from shmcoll.nki.replica_group import ReplicaGroup, communicator
from shmcoll.nki.shared_hbm import Pages
from shmcoll.nki.shared_hbm import all_gather as gather_once
from shmcoll.nki.tensors import (
    FLOAT8,
    Pairs,
    check_priority,
    check_tensors,
    in_our_words,
    reduce_float8,
    reduction,
    tensor_pairs,
)


def all_reduce(
    srcs: Sequence[np.ndarray],
    dsts: Sequence[np.ndarray],
    replica_group: ReplicaGroup,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Reduce the tensors of all ranks of a list element by element, and write the results on each of them.

    float8 tensors are reduced in float32 and rounded once.

    Args:
        srcs: a list of arrays of any shape. Shapes and dtypes are equal on all ranks of the list.
        dsts: a list of arrays of the shapes and dtypes of `srcs`. They may be the same arrays.
        replica_group: which ranks take part.
        op: `nl.add`, `nl.minimum` or `nl.maximum`.
        priority: 0 to 3, or None; has no effect.
        name: a label, which has no effect.

    Raises:
        TypeError: `op` is another operator, the dtype has no such operator, or a dtype differs.
        ValueError: a shape differs, the lists differ in length, or this rank is in no rank-list.
    """
    pairs, comm = _begun(srcs, dsts, replica_group, priority, "all_reduce")
    operator = reduction(op, "all_reduce")
    _reduce_each(comm.all_reduce, pairs, operator, "all_reduce", comm)


def all_gather(
    srcs: Sequence[np.ndarray],
    dsts: Sequence[np.ndarray],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Concatenate the tensors of all ranks of a list, in the order of the list, on each of them.

    Args:
        srcs: a list of arrays of at least one dimension. Shapes and dtypes are equal on all ranks of the list.
        dsts: a list of arrays of the same dtypes, of n times the length along `collective_dim` for n ranks. If
            `collective_dim` is 0, tensors in `nl.shared_hbm` show one result in shared memory, which is written once
            for all ranks of the list. Then all these ranks pass such a tensor.
        replica_group: which ranks take part.
        collective_dim: the dimension along which the tensors are concatenated: 0, or 1 for arrays of 2 dimensions.
        priority: 0 to 3, or None; has no effect.
        name: a label, which has no effect.

    Raises:
        TypeError: a dtype differs.
        ValueError: a shape differs, there is no such dimension, the lists differ in length, or this rank is in no
            rank-list.
    """
    pairs, comm = _begun(srcs, dsts, replica_group, priority, "all_gather")
    if type(collective_dim) is not int or collective_dim != 0:
        _check_dimension(collective_dim, "all_gather", 1)
    if collective_dim:
        _gather_columns(pairs, comm)
        return
    if len(pairs) > 1:
        _check(pairs, "all_gather", comm)
    try:
        for src, dst in pairs:
            if isinstance(dst.base, Pages):
                gather_once(comm, src, dst)
            else:
                comm.all_gather(src, out=dst)
    except (TypeError, ValueError) as error:
        raise in_our_words(error, _check, pairs, "all_gather", comm) from error.__cause__


def _gather_columns(pairs: Pairs, comm: Communicator) -> None:
    """Gather along dimension 1: each rank's part is a block of columns."""
    if any(src.ndim != 2 for src, _ in pairs):
        shapes = ", ".join(str(src.shape) for src, _ in pairs if src.ndim != 2)
        raise ValueError(f"all_gather: collective_dim=1 needs arrays of 2 dimensions; got shape {shapes}")
    check_tensors(pairs, lambda src: (src.shape[0], comm.size * src.shape[1]), "all_gather", comm)
    for src, dst in pairs:
        comm.all_gather(src, out=[dst[:, i * src.shape[1] : (i + 1) * src.shape[1]] for i in range(comm.size)])


def reduce_scatter(
    srcs: Sequence[np.ndarray],
    dsts: Sequence[np.ndarray],
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Reduce the tensors of all ranks of a list element by element, and write block p of the result on rank p of it.

    float8 tensors are reduced in float32 and rounded once.

    Args:
        srcs: a list of arrays whose first dimension is divisible by n for n ranks. Shapes and dtypes are equal on all
            ranks of the list.
        dsts: a list of arrays of the same dtypes, with the first dimension divided by n.
        replica_group: which ranks take part.
        collective_dim: 0.
        op: `nl.add`, `nl.minimum` or `nl.maximum`.
        priority: 0 to 3, or None; has no effect.
        name: a label, which has no effect.

    Raises:
        TypeError: `op` is another operator, the dtype has no such operator, or a dtype differs.
        ValueError: a shape differs or is not divisible, `collective_dim` is not 0, the lists differ in length, or this
            rank is in no rank-list.
    """
    pairs, comm = _begun(srcs, dsts, replica_group, priority, "reduce_scatter")
    operator = reduction(op, "reduce_scatter")
    if type(collective_dim) is not int or collective_dim != 0:
        _check_dimension(collective_dim, "reduce_scatter", 0)
    _reduce_each(comm.reduce_scatter, pairs, operator, "reduce_scatter", comm)


def all_to_all(
    srcs: Sequence[np.ndarray],
    dsts: Sequence[np.ndarray],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send block p of each tensor to rank p of the list, and concatenate the blocks received.

    Args:
        srcs: a list of arrays whose first dimension is divisible by n for n ranks. Shapes and dtypes are equal on all
            ranks of the list.
        dsts: a list of arrays of the shapes and dtypes of `srcs`. They may be the same arrays.
        replica_group: which ranks take part.
        collective_dim: 0.
        priority: 0 to 3, or None; has no effect.
        name: a label, which has no effect.

    Raises:
        TypeError: a dtype differs.
        ValueError: a shape differs or is not divisible, `collective_dim` is not 0, the lists differ in length, or this
            rank is in no rank-list.
    """
    pairs, comm = _begun(srcs, dsts, replica_group, priority, "all_to_all")
    if type(collective_dim) is not int or collective_dim != 0:
        _check_dimension(collective_dim, "all_to_all", 0)
    if len(pairs) > 1:
        _check(pairs, "all_to_all", comm)
    try:
        for src, dst in pairs:
            comm.all_to_all(src, out=dst)
    except (TypeError, ValueError, IndexError) as error:
        raise in_our_words(error, _check, pairs, "all_to_all", comm) from error.__cause__


def _begun(srcs: Any, dsts: Any, group: Any, priority: Any, operation: str) -> tuple[Pairs, Communicator]:
    """Check the arguments that all functions have. Return the pairs of tensors, and the communicator."""
    pairs = tensor_pairs(srcs, dsts, operation)
    if priority is not None:
        check_priority(priority, operation)
    return pairs, communicator(group, operation)


def _reduce_each(reduce: Callable[..., Any], pairs: Pairs, operator: str, operation: str, comm: Communicator) -> None:
    """Make a reducing call of the communicator with each pair of tensors."""
    if len(pairs) > 1 or pairs[0][0].dtype in FLOAT8:
        _check(pairs, operation, comm)
    try:
        for src, dst in pairs:
            if src.dtype in FLOAT8:
                reduce_float8(reduce, src, dst, operator)
            else:
                reduce(src, operator, out=dst)
    except (TypeError, ValueError) as error:
        raise in_our_words(error, _check, pairs, operation, comm) from error.__cause__


#: the shape of a result from that of a source and the number of ranks; whether sources are split along axis 0
_FORMS: dict[str, tuple[Callable[[tuple[int, ...], int], tuple[int, ...]], bool]] = {
    "all_reduce": (lambda shape, n: shape, False),
    "all_gather": (whole_shape, False),
    "reduce_scatter": (lambda shape, n: (shape[0] // n, *shape[1:]), True),
    "all_to_all": (lambda shape, n: shape, True),
}


def _check(pairs: Pairs, operation: str, comm: Communicator) -> None:
    """Raise the error of the first tensor that a call cannot take."""
    shape, is_split = _FORMS[operation]
    check_tensors(
        pairs,
        lambda src: shape(src.shape, comm.size),
        operation,
        comm,
        is_split=is_split,
        reduces="reduce" in operation,
    )


def _check_dimension(value: Any, operation: str, largest: int) -> None:
    """Raise `TypeError` or `ValueError` unless it is an integer from 0 to `largest`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{operation}: collective_dim must be an integer, got {type(value).__name__}")
    if not 0 <= value <= largest:
        raise ValueError(f"{operation}: collective_dim must be {'0 or 1' if largest else '0'}, got {value}")
