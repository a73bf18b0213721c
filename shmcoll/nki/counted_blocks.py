"""The collectives of blocks whose lengths only run time knows: all_to_all_v, all_gather_v, and their split forms.

The metadata has one column for each position of the rank-list, and 3 or 4 rows of uint32, in elements:

    row 0   send counts
    row 1   send displacements in the source; regions may overlap
    row 2   never read; the received counts are written here unless `recv_counts_known`
    row 3   receive displacements in the destination, with `has_rdispls` only

all_gather_v reads column 0 of rows 0 and 1, because every rank gets the same block.

Without `has_rdispls` the block of position p begins at p times floor(size / n) elements of the destination, whatever
its length, as NKI's document says ("regardless of the actual recv_count"). A longer block may therefore go on into the
next slot. NKI does not say what happens if it meets the block of that slot, or the end of the destination. Here that is
a `ValueError` on every rank.

`*_prepare` checks its arguments and copies rows 0, 1 and 3. `*_trigger` reads the source, communicates, and writes the
destination and row 2. There is one slot for a prepared call, as on the hardware.

Sources: the documentation of `nki.collectives` in the Neuron SDK, 2.30 to 2.33.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from shmcoll.nki.replica_group import ReplicaGroup, communicator
from shmcoll.nki.tensors import check_priority, only_pair

SEND_COUNTS, SEND_DISPLS, RECV_COUNTS, RECV_DISPLS = range(4)
_UINT32, _INT32 = np.dtype(np.uint32), np.dtype(np.int32)


class NkiInstruction:
    """A call in two parts: what `*_prepare` returns and `*_trigger` takes.

    operation: "all_to_all_v" or "all_gather_v". name: the label of the prepare.
    """

    def __init__(self, operation: str, name: str | None, call: Callable[[], None]):
        self.operation, self.name, self._call = operation, name, call

    def __repr__(self) -> str:
        return f"<NkiInstruction {self.operation}{f' {self.name!r}' if self.name else ''}>"


_prepared: NkiInstruction | None = None


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
    if priority is not None:
        check_priority(priority, "all_to_all_v")
    source, target = only_pair(srcs, dsts, "all_to_all_v")
    comm = communicator(replica_group, "all_to_all_v")
    size = comm.size
    rows = _metadata(metadata_tensor, size, has_rdispls, recv_counts_known, "all_to_all_v")
    places = rows[RECV_DISPLS] if has_rdispls else _places(target.size, size)
    _, received = comm.all_to_all_v(source, rows[SEND_COUNTS], rows[SEND_DISPLS], recv_displs=places, out=target)
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
    if priority is not None:
        check_priority(priority, "all_gather_v")
    source, target = only_pair(srcs, dsts, "all_gather_v")
    comm = communicator(replica_group, "all_gather_v")
    size = comm.size
    rows = _metadata(metadata_tensor, size, has_rdispls, recv_counts_known, "all_gather_v")
    count, begin = rows.item(SEND_COUNTS, 0), rows.item(SEND_DISPLS, 0)
    if begin or count != source.size:
        source = _block(source, count, begin)
    places = rows[RECV_DISPLS] if has_rdispls else _places(target.size, size)
    _, received = comm.all_gather_v(source, recv_displs=places, out=target)
    if not recv_counts_known:
        rows[RECV_COUNTS] = received


def all_to_all_v_prepare(
    srcs: Sequence[np.ndarray],
    dsts: Sequence[np.ndarray],
    replica_group: ReplicaGroup,
    metadata_tensor: np.ndarray,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Begin an `all_to_all_v` in two parts: check the arguments and read the metadata. Nothing is sent.

    Args:
        srcs: as for `all_to_all_v`; read by the trigger.
        dsts: as for `all_to_all_v`; written by the trigger.
        replica_group: as for `all_to_all_v`.
        metadata_tensor: as for `all_to_all_v`; read now, and row 2 written by the trigger.
        recv_counts_known: do not write row 2.
        has_rdispls: write the blocks at the displacements of row 3.
        priority: 0 to 3, or None; has no effect.
        name: a label.

    Returns:
        What `all_to_all_v_trigger` takes.

    Raises:
        RuntimeError: an earlier prepare has not been triggered.
        TypeError: as for `all_to_all_v`.
        ValueError: as for `all_to_all_v` on this rank alone.
    """
    call = srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority
    return _prepare(all_to_all_v, call, name)


def all_to_all_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Complete an `all_to_all_v` that has been prepared.

    Args:
        prepare_instr: what `all_to_all_v_prepare` has returned.
        name: a label, which has no effect.

    Returns:
        The same instruction.

    Raises:
        TypeError: it is not an instruction.
        RuntimeError: it is one of `all_gather_v_prepare`, or has been triggered.
        ValueError: as for `all_to_all_v`.
    """
    return _trigger("all_to_all_v", prepare_instr)


def all_gather_v_prepare(
    srcs: Sequence[np.ndarray],
    dsts: Sequence[np.ndarray],
    replica_group: ReplicaGroup,
    metadata_tensor: np.ndarray,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Begin an `all_gather_v` in two parts: check the arguments and read the metadata. Nothing is sent.

    Args:
        srcs: as for `all_gather_v`; read by the trigger.
        dsts: as for `all_gather_v`; written by the trigger.
        replica_group: as for `all_gather_v`.
        metadata_tensor: as for `all_gather_v`; read now, and row 2 written by the trigger.
        recv_counts_known: do not write row 2.
        has_rdispls: write the blocks at the displacements of row 3.
        priority: 0 to 3, or None; has no effect.
        name: a label.

    Returns:
        What `all_gather_v_trigger` takes.

    Raises:
        RuntimeError: an earlier prepare has not been triggered.
        TypeError: as for `all_gather_v`.
        ValueError: as for `all_gather_v` on this rank alone.
    """
    call = srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority
    return _prepare(all_gather_v, call, name)


def all_gather_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Complete an `all_gather_v` that has been prepared.

    Args:
        prepare_instr: what `all_gather_v_prepare` has returned.
        name: a label, which has no effect.

    Returns:
        The same instruction.

    Raises:
        TypeError: it is not an instruction.
        RuntimeError: it is one of `all_to_all_v_prepare`, or has been triggered.
        ValueError: as for `all_gather_v`.
    """
    return _trigger("all_gather_v", prepare_instr)


def _block(source: np.ndarray, count: int, begin: int) -> np.ndarray:
    """Return what this rank sends in an all_gather_v."""
    if count and begin + count > source.size:
        raise ValueError(
            f"all_gather_v: {count} elements from displacement {begin} are sent, but src has {source.size}"
        )
    return source.reshape(-1)[begin : begin + count]


def _prepare(function: Callable[..., None], call: tuple[Any, ...], name: str | None) -> NkiInstruction:
    global _prepared
    srcs, dsts, group, metadata, known, has_rdispls, priority = call
    operation = function.__name__
    if _prepared is not None:
        raise RuntimeError(
            f"{operation}_prepare: {_prepared} has been prepared and not triggered; each prepare needs its trigger "
            f"before the next prepare"
        )
    if priority is not None:
        check_priority(priority, operation)
    source, target = only_pair(srcs, dsts, operation)
    rows = _metadata(metadata, communicator(group, operation).size, has_rdispls, known, operation)
    read = rows.copy()

    def perform() -> None:
        function([source], [target], group, read, known, has_rdispls)
        if not known:
            rows[RECV_COUNTS] = read[RECV_COUNTS]

    _prepared = NkiInstruction(operation, name, perform)
    return _prepared


def _trigger(operation: str, prepared: Any) -> NkiInstruction:
    global _prepared
    if not isinstance(prepared, NkiInstruction):
        raise TypeError(
            f"{operation}_trigger: prepare_instr must be what {operation}_prepare returns, "
            f"got {type(prepared).__name__}"
        )
    if prepared.operation != operation or prepared is not _prepared:
        wrong = "has been triggered" if prepared is not _prepared else f"needs {prepared.operation}_trigger"
        raise RuntimeError(f"{operation}_trigger: {prepared} {wrong}")
    _prepared = None  # also if the call fails: another prepare may follow
    prepared._call()
    return prepared


@lru_cache(maxsize=1024)
def _places(elements: int, size: int) -> tuple[int, ...]:
    """Return where the blocks begin in a destination without displacements."""
    return tuple(p * (elements // size) for p in range(size))


def _metadata(tensor: Any, size: int, has_rdispls: bool, known: bool, operation: str) -> np.ndarray:
    """Return the metadata as a view of shape (rows, n) and dtype uint32. known: row 2 is not written."""
    if type(tensor) is np.ndarray and tensor.dtype == _UINT32:
        plain: np.ndarray = tensor[0] if tensor.ndim == 3 and len(tensor) == 1 else tensor
        if plain.shape == (3 + has_rdispls, size) and (known or plain.flags.writeable):  # the common call
            return plain
    if not isinstance(tensor, np.ndarray):
        raise TypeError(f"{operation}: metadata_tensor must be a numpy array, got {type(tensor).__name__}")
    if tensor.dtype != _UINT32 or type(tensor) is not np.ndarray:
        if tensor.dtype not in (_UINT32, _INT32):
            raise TypeError(f"{operation}: metadata_tensor must be uint32 (or int32), got {tensor.dtype}")
        tensor = tensor.view(_UINT32, np.ndarray)
    rows: np.ndarray = tensor[0] if tensor.ndim == 3 and len(tensor) == 1 else tensor
    shape = rows.shape
    if (has_rdispls or shape != (3, size)) and shape != (4, size):
        wanted = f"(4, {size})" if has_rdispls else f"(3, {size}) or (4, {size})"
        raise ValueError(
            f"{operation}: metadata_tensor must have shape {wanted}, or the same behind a first axis of 1, "
            f"for {size} ranks and has_rdispls={bool(has_rdispls)}, got {tensor.shape}"
        )
    if not known and not rows.flags.writeable:
        raise ValueError(f"{operation}: metadata_tensor is read-only, but row 2 is written unless recv_counts_known")
    return rows
