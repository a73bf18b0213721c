"""`nki.collectives`: `all_to_all_v`, `ReplicaGroup`, `rank_id`.

The first call joins the job; there is no init call. Tensors are numpy arrays (bfloat16: `ml_dtypes`).

In this release the replica group must be one rank-list with all ranks of the job, in any order. What NKI's document
demands of the hardware does not apply: tensors backed by HBM or SBUF, Trn2 or Trn3, the NeuronSwitch fabric, LNC=2,
more than one device, all ranks of a device in one rank-list, rank-lists of sequential ranks or of same-indexed ranks of
different nodes, the mesh network. `priority` is a quality of service of the DMA engines: it is checked, and has no
effect.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import shmcoll
from shmcoll.communicator import Communicator

SEND_COUNTS, SEND_DISPLS, RECV_COUNTS, RECV_DISPLS = range(4)


class ReplicaGroup:
    """The ranks that take part, such as `ReplicaGroup([[0, 1, 2, 3]])`.

    Args:
        rank_lists: a list of lists of ranks. Each rank-list runs its own collective; a rank's position in it is its
            column in the metadata.

    Raises:
        TypeError: `rank_lists` is not a list of lists of integers.
        ValueError: a list is empty, or a rank is negative or named twice.
    """

    def __init__(self, rank_lists: Sequence[Sequence[int]]):
        if not isinstance(rank_lists, (list, tuple)):
            raise TypeError(f"ReplicaGroup: expected a list of rank-lists, got {type(rank_lists).__name__}")
        if not rank_lists:
            raise ValueError("ReplicaGroup: expected at least one rank-list, got none")
        named: set[int] = set()
        for ranks in rank_lists:
            if not isinstance(ranks, (list, tuple)):
                raise TypeError(f"ReplicaGroup: a rank-list must be a list of ranks, got {type(ranks).__name__}")
            if not ranks:
                raise ValueError("ReplicaGroup: a rank-list is empty")
            for rank in ranks:
                if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)):
                    raise TypeError(f"ReplicaGroup: a rank must be an integer, got {type(rank).__name__}")
                if rank < 0:
                    raise ValueError(f"ReplicaGroup: a rank must not be negative, got {rank}")
                if rank in named:
                    raise ValueError(f"ReplicaGroup: rank {rank} is named twice; rank-lists must not overlap")
                named.add(int(rank))
        self.rank_lists = [[int(rank) for rank in ranks] for ranks in rank_lists]

    def __repr__(self) -> str:
        return f"ReplicaGroup({self.rank_lists})"


def rank_id(name: str | None = None) -> int:
    """Return this rank's number in the job.

    Args:
        name: a label, which has no effect.

    Errors of joining are those of `shmcoll.init`.
    """
    return shmcoll.init().rank


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
    """Send a different number of elements from every rank to every rank, itself included.

    The metadata has one column for each position in the rank-list, and 3 or 4 rows, all in elements:

        row 0   send counts
        row 1   send displacements in the source; regions may overlap
        row 2   never read; the received counts are written here unless `recv_counts_known`
        row 3   receive displacements in the destination, with `has_rdispls` only

    Without `has_rdispls` the destination is divided into n slots of floor(size / n) elements, and the block of position
    r is written at the beginning of slot r. A count of zero leaves its slot unchanged.

    Args:
        srcs: a list of one array, of any shape, taken as a flat row-major buffer.
        dsts: a list of one array of the same dtype, of any shape, taken as a flat row-major buffer. Only the blocks
            received are written.
        replica_group: a `ReplicaGroup` of all ranks of the job.
        metadata_tensor: uint32 array (int32 is taken bit by bit) of shape (rows, n) or (1, rows, n).
        recv_counts_known: do not write row 2.
        has_rdispls: write the blocks at the displacements of row 3.
        priority: 0 to 3, or None; has no effect.
        name: a label, which has no effect.

    Raises:
        ValueError: on every rank, before a byte of any destination changes: on some rank a count exceeds its slot, a
            block is not within its buffer, or receive regions overlap. The job stays usable. Or, on this rank alone, an
            argument has a wrong shape.
        TypeError: on this rank alone, an argument has a wrong type.
        NotImplementedError: on this rank alone, the replica group is not the whole job.
    """
    source, target = _only(srcs, "srcs"), _only(dsts, "dsts")
    if source.dtype != target.dtype:
        raise TypeError(f"all_to_all_v: src has dtype {source.dtype}, dst has {target.dtype}")
    if not target.flags.writeable:
        raise ValueError("all_to_all_v: dst is read-only")
    if priority is not None and (type(priority) is not int or not 0 <= priority <= 3):
        raise ValueError(f"all_to_all_v: priority must be 0, 1, 2, 3 or None, got {priority!r}")
    comm = shmcoll.init()
    order = _order(replica_group, comm)
    rows = _metadata(metadata_tensor, comm.size, has_rdispls, written=not recv_counts_known)

    def by_rank(columns: np.ndarray) -> np.ndarray:
        values = np.empty(comm.size, np.int64)
        values[order] = columns
        return values

    slot = target.size // comm.size
    places = rows[RECV_DISPLS] if has_rdispls else slot * np.arange(comm.size)
    _, received = comm.all_to_all_v(
        source,
        by_rank(rows[SEND_COUNTS]),
        by_rank(rows[SEND_DISPLS]),
        recv_displs=by_rank(places),
        recv_room=None if has_rdispls else np.full(comm.size, slot),
        out=target,
    )
    if not recv_counts_known:
        rows[RECV_COUNTS] = received[order]


def _only(tensors: Any, name: str) -> np.ndarray:
    """The one array of a list, without its subclass."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"all_to_all_v: {name} must be a list of one array, got {type(tensors).__name__}")
    if len(tensors) != 1:
        raise ValueError(f"all_to_all_v: {name} must hold exactly one array, got {len(tensors)}")
    if not isinstance(tensors[0], np.ndarray):
        raise TypeError(f"all_to_all_v: {name} must hold a numpy array, got {type(tensors[0]).__name__}")
    return tensors[0].view(np.ndarray)


def _order(replica_group: Any, comm: Communicator) -> list[int]:
    """The rank at each position of the only rank-list."""
    if not isinstance(replica_group, ReplicaGroup):
        raise TypeError(f"all_to_all_v: replica_group must be a ReplicaGroup, got {type(replica_group).__name__}")
    lists = replica_group.rank_lists
    beyond = [rank for ranks in lists for rank in ranks if rank >= comm.size]
    if beyond:
        raise ValueError(f"all_to_all_v: {replica_group} names rank {beyond[0]}, but the job has {comm.size} ranks")
    if len(lists) > 1 or len(lists[0]) != comm.size:
        raise NotImplementedError(
            f"all_to_all_v: {replica_group} divides the job of {comm.size} ranks; in this release one rank-list must "
            f"hold all of them. To leave a rank out, keep it in the list and send it nothing."
        )
    return lists[0]


def _metadata(tensor: Any, size: int, has_rdispls: bool, written: bool) -> np.ndarray:
    """The metadata as a view of shape (rows, n) and dtype uint32."""
    if not isinstance(tensor, np.ndarray):
        raise TypeError(f"all_to_all_v: metadata_tensor must be a numpy array, got {type(tensor).__name__}")
    if tensor.dtype not in (np.dtype(np.uint32), np.dtype(np.int32)):
        raise TypeError(f"all_to_all_v: metadata_tensor must be uint32 (or int32), got {tensor.dtype}")
    rows = tensor[0] if tensor.ndim == 3 and tensor.shape[0] == 1 else tensor
    needed = (4,) if has_rdispls else (3, 4)
    if rows.ndim != 2 or rows.shape[0] not in needed or rows.shape[1] != size:
        wanted = " or ".join(f"({n}, {size})" for n in needed)
        raise ValueError(
            f"all_to_all_v: metadata_tensor must have shape {wanted}, or the same behind a first axis of 1, "
            f"for {size} ranks and has_rdispls={bool(has_rdispls)}, got {tensor.shape}"
        )
    if written and not rows.flags.writeable:
        raise ValueError("all_to_all_v: metadata_tensor is read-only, but row 2 is written unless recv_counts_known")
    return rows.view(np.ndarray).view(np.uint32)
