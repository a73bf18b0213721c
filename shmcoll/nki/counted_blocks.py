"""The collectives of blocks whose lengths are known at run time only: all_to_all_v and all_gather_v.

The metadata has one column for each position of the rank-list, and 3 or 4 rows of uint32, in elements:

    row 0   send counts
    row 1   send displacements in the source; regions may overlap
    row 2   never read; the received counts are written here unless `recv_counts_known`
    row 3   receive displacements in the destination, with `has_rdispls` only

all_gather_v reads column 0 of rows 0 and 1, because every rank gets the same block.

Without `has_rdispls` the block of position p begins at p times floor(size / n) elements of the destination, whatever
its length, as NKI's document says ("regardless of the actual recv_count"). A longer block may therefore continue in the
next slot. NKI does not say what happens if it meets the block of that slot, or the end of the destination. Here that is
a `ValueError` on every rank.

Sources: the documentation of `nki.collectives` in the Neuron SDK, 2.30 to 2.33.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from shmcoll.engine.system.text import shown
from shmcoll.nki.replica_group import ReplicaGroup, joined
from shmcoll.nki.tensors import check_priority, check_tensors, in_our_words, only_pair

SEND_COUNTS, SEND_DISPLS, RECV_COUNTS, RECV_DISPLS = range(4)
_UINT32, _INT32 = np.dtype(np.uint32), np.dtype(np.int32)


def all_to_all_v(
    srcs: Sequence[np.ndarray],
    dsts: Sequence[np.ndarray],
    replica_group: ReplicaGroup,
    metadata_tensor: np.ndarray,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send a different number of elements from every rank of a list to every rank, itself included.

    The metadata has one column for each position in the rank-list, and 3 or 4 rows, all in elements:

        row 0   send counts
        row 1   send displacements in the source; regions may overlap
        row 2   never read; the received counts are written here unless `recv_counts_known`
        row 3   receive displacements in the destination, with `has_rdispls` only

    Without `has_rdispls` the block of position p of n begins at element p * floor(size / n) of the destination,
    whatever its length. A count of zero writes nothing.

    Args:
        srcs: a list of one array, of any shape, taken as a flat row-major buffer.
        dsts: a list of one array of the same dtype, of any shape, taken as a flat row-major buffer. Only the blocks
            received are written.
        replica_group: which ranks take part.
        metadata_tensor: uint32 array (int32 is taken bit by bit) of shape (rows, n) or (1, rows, n).
        recv_counts_known: do not write row 2.
        has_rdispls: write the blocks at the displacements of row 3.
        priority: 0 to 3, or None; has no effect.
        name: a label, which has no effect.

    Raises:
        ValueError: on every rank of the list, before a byte of any destination changes: a block of some rank is not
            within its buffer, or two blocks received overlap. Nothing else fails by that. Or, on this rank alone, an
            argument has a wrong shape, or this rank is in no rank-list.
        TypeError: on this rank alone, an argument has a wrong type.
    """
    comm, size, source, target, rows = checked(
        "all_to_all_v", srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority
    )
    received = send_blocks(comm, size, source, target, rows, has_rdispls)
    if not recv_counts_known:
        rows[RECV_COUNTS] = received


def all_gather_v(
    srcs: Sequence[np.ndarray],
    dsts: Sequence[np.ndarray],
    replica_group: ReplicaGroup,
    metadata_tensor: np.ndarray,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send one block of any length from every rank of a list to all of them, itself included.

    The metadata is that of `all_to_all_v`. Of rows 0 and 1 only column 0 is read: the length of this rank's block, and
    where it begins in the source.

    Args:
        srcs: a list of one array, of any shape, taken as a flat row-major buffer.
        dsts: a list of one array of the same dtype, of any shape, taken as a flat row-major buffer. Only the blocks
            received are written.
        replica_group: which ranks take part.
        metadata_tensor: as for `all_to_all_v`.
        recv_counts_known: do not write row 2.
        has_rdispls: write the blocks at the displacements of row 3.
        priority: 0 to 3, or None; has no effect.
        name: a label, which has no effect.

    Raises:
        ValueError: on every rank of the list, before a byte of any destination changes: a block is not within some
            destination, or two blocks overlap in one. Or, on this rank alone, the block is not within the source, an
            argument has a wrong shape, or this rank is in no rank-list.
        TypeError: on this rank alone, an argument has a wrong type.
    """
    comm, size, source, target, rows = checked(
        "all_gather_v", srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority
    )
    received = gather_blocks(comm, size, source, target, rows, has_rdispls)
    if not recv_counts_known:
        rows[RECV_COUNTS] = received


# --- the parts of a call ----------------------------------------------------------------------------------------------


def checked(
    operation: str,
    srcs: Any,
    dsts: Any,
    group: Any,
    metadata: Any,
    known: bool,
    has_rdispls: bool,
    priority: Any,
) -> tuple[Any, int, np.ndarray, np.ndarray, np.ndarray]:
    """Check the arguments of a call.

    Args:
        operation: its name.
        srcs: as for `all_to_all_v`.
        dsts: as for `all_to_all_v`.
        group: as for `all_to_all_v`.
        metadata: as for `all_to_all_v`.
        known: row 2 of the metadata is not written.
        has_rdispls: the metadata has row 3.
        priority: as for `all_to_all_v`.

    Returns:
        (communicator, n, source, destination, metadata): n is the size of the communicator; the metadata is a view of
        shape (rows, n) and dtype uint32.
    """
    if priority is not None:
        check_priority(priority, operation)
    source, target = only_pair(srcs, dsts, operation)
    if type(known) is not bool or type(has_rdispls) is not bool:
        _check_flags(operation, recv_counts_known=known, has_rdispls=has_rdispls)
    comm, size = joined(group, operation)
    rows = metadata
    if type(rows) is not np.ndarray or rows.dtype is not _UINT32:
        rows = _as_uint32(rows, operation)
    shape = rows.shape
    if len(shape) == 3 and shape[0] == 1:
        rows, shape = rows[0], shape[1:]
    if (has_rdispls or shape != (3, size)) and shape != (4, size):
        wanted = f"(4, {size})" if has_rdispls else f"(3, {size}) or (4, {size})"
        raise ValueError(
            f"{operation}: metadata_tensor must have shape {wanted}, or the same behind a first axis of 1, "
            f"for {size} ranks and has_rdispls={bool(has_rdispls)}, got {metadata.shape}"
        )
    if not known and not rows.flags.writeable:
        raise ValueError(
            f"{operation}: metadata_tensor is read-only, but row 2 is written; pass a copy, or recv_counts_known=True"
        )
    return comm, size, source, target, rows


def _check_flags(operation: str, **flags: Any) -> None:
    """Raise `TypeError` unless these are bools, or 0 or 1."""
    for name, value in flags.items():
        if not isinstance(value, (bool, int, np.bool_, np.integer)) or value not in (0, 1):
            raise TypeError(f"{operation}: {name} must be True or False, got {shown(value)}")


def send_blocks(
    comm: Any, size: int, source: np.ndarray, target: np.ndarray, rows: np.ndarray, has_rdispls: bool
) -> np.ndarray:
    """Make the call of an all_to_all_v. Return the received counts.

    Args:
        comm: from `checked`.
        size: from `checked`.
        source: from `checked`.
        target: from `checked`.
        rows: the metadata, from `checked` or a copy of it.
        has_rdispls: it has row 3.
    """
    places = rows[RECV_DISPLS] if has_rdispls else _places(target.size, size)
    received: np.ndarray
    try:
        _, received = comm.all_to_all_v(source, rows[SEND_COUNTS], rows[SEND_DISPLS], recv_displs=places, out=target)
    except (TypeError, ValueError) as error:
        raise in_our_words(error, _check, source, target, "all_to_all_v", comm) from error.__cause__
    return received


def gather_blocks(
    comm: Any, size: int, source: np.ndarray, target: np.ndarray, rows: np.ndarray, has_rdispls: bool
) -> np.ndarray:
    """Make the call of an all_gather_v. Return the received counts.

    Args:
        comm: from `checked`.
        size: from `checked`.
        source: from `checked`.
        target: from `checked`.
        rows: the metadata, from `checked` or a copy of it.
        has_rdispls: it has row 3.
    """
    count, begin = rows.item(SEND_COUNTS * size), rows.item(SEND_DISPLS * size)  # column 0
    if begin or count != source.size:
        source = _block(source, count, begin)
    places = rows[RECV_DISPLS] if has_rdispls else _places(target.size, size)
    received: np.ndarray
    try:
        _, received = comm.all_gather_v(source, recv_displs=places, out=target)
    except (TypeError, ValueError) as error:
        raise in_our_words(error, _check, source, target, "all_gather_v", comm) from error.__cause__
    return received


def _check(source: np.ndarray, target: np.ndarray, operation: str, comm: Any) -> None:
    """Raise the error of a tensor that a call cannot take."""
    check_tensors([(source, target)], lambda _: target.shape, operation, comm)


def _block(source: np.ndarray, count: int, begin: int) -> np.ndarray:
    """Return what this rank sends in an all_gather_v."""
    if count and begin + count > source.size:
        raise ValueError(
            f"all_gather_v: {count} elements from displacement {begin} are sent, but srcs[0] has {source.size}"
        )
    return source.reshape(-1)[begin : begin + count]


@lru_cache(maxsize=1024)
def _places(elements: int, size: int) -> tuple[int, ...]:
    """Return where the blocks begin in a destination without displacements."""
    return tuple(p * (elements // size) for p in range(size))


def _as_uint32(tensor: Any, operation: str) -> np.ndarray:
    """Return the memory of an array of uint32 or int32 as plain uint32."""
    if not isinstance(tensor, np.ndarray):
        raise TypeError(
            f"{operation}: metadata_tensor must be a numpy array, got {type(tensor).__name__}; "
            f"write np.array(rows, np.uint32)"
        )
    if tensor.dtype not in (_UINT32, _INT32):
        raise TypeError(
            f"{operation}: metadata_tensor must be uint32 (or int32), got {tensor.dtype}; convert it, as in "
            f"metadata.astype(np.uint32)"
        )
    return tensor.view(_UINT32, np.ndarray)
