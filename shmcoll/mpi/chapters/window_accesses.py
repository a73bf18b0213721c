"""MPI's chapter on windows: puts, gets and accumulates.

Each is complete when its call returns. So the forms with a request return one that is complete. An accumulate is atomic
as a whole, against all other accumulates at the same rank.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.mpi.objects.buffers import Buffer, Elements
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.operators import Operator
from shmcoll.mpi.objects.requests import Request, WorkRequest, added
from shmcoll.mpi.objects.windows import Window


def _access(perform: Callable[..., None]) -> Callable[..., None]:
    """Register an access in its two forms, `MPI_X` and `MPI_Rx`. The window is the last argument."""
    name = perform.__name__

    @mpi(name=f"R{name.lower()}")
    def with_request(*arguments: Any) -> Request:
        perform(*arguments)
        return added(WorkRequest(arguments[-1], None))

    return mpi()(perform)


def _check_length(origin: Buffer, count: int, datatype: Datatype, *, fits: bool = False) -> None:
    """Raise unless the origin has as many bytes as the target. fits: whether it fits though it has not."""
    if origin.bytes != count * datatype.size and not fits:
        raise MPIError("MPI_ERR_COUNT", f"the origin has {origin.bytes} bytes, and the target {count * datatype.size}")


@_access
def Put(
    address: int,
    count: int,
    datatype: Datatype,
    rank: int,
    displacement: int,
    target_count: int,
    target_type: Datatype,
    win: Window,
) -> None:
    if place := win.place("MPI_Put", rank, displacement, target_count, target_type):
        origin = Buffer(address, count, datatype)
        whole, rest = divmod(origin.bytes, target_type.size or 1)
        _check_length(origin, target_count, target_type, fits=whole <= target_count and not rest)
        target, at = place
        if origin.bytes:
            win.epochs.note_access("MPI_Put", target, at, whole, target_type)
            with win.reaching("MPI_Put", rank):
                target.write(at, whole, target_type, origin.packed())


@_access
def Get(
    address: int,
    count: int,
    datatype: Datatype,
    rank: int,
    displacement: int,
    target_count: int,
    target_type: Datatype,
    win: Window,
) -> None:
    if place := win.place("MPI_Get", rank, displacement, target_count, target_type):
        origin = Buffer(address, count, datatype)
        length = target_count * target_type.size
        _check_length(origin, target_count, target_type, fits=length <= origin.bytes)
        target, at = place
        if length:
            win.epochs.note_access("MPI_Get", target, at, target_count, target_type)
            with win.reaching("MPI_Get", rank):
                origin.fill_from(target.read(at, target_count, target_type))


@_access
def Accumulate(
    address: int,
    count: int,
    datatype: Datatype,
    rank: int,
    displacement: int,
    target_count: int,
    target_type: Datatype,
    op: Operator,
    win: Window,
) -> None:
    origin = Buffer(address, count, datatype) if rank >= 0 else None
    _accumulate("MPI_Accumulate", origin, None, rank, displacement, target_count, target_type, op, win)


@_access
def Get_accumulate(
    address: int,
    count: int,
    datatype: Datatype,
    result: int,
    result_count: int,
    result_type: Datatype,
    rank: int,
    displacement: int,
    target_count: int,
    target_type: Datatype,
    op: Operator,
    win: Window,
) -> None:
    origin = None if rank < 0 or op.name == "MPI_NO_OP" else Buffer(address, count, datatype)
    fetched = Buffer(result, result_count, result_type) if rank >= 0 else None
    _accumulate("MPI_Get_accumulate", origin, fetched, rank, displacement, target_count, target_type, op, win)


@mpi()
def Fetch_and_op(
    address: int, result: int, datatype: Datatype, rank: int, displacement: int, op: Operator, win: Window
) -> None:
    origin = None if rank < 0 or op.name == "MPI_NO_OP" else Buffer(address, 1, datatype)
    fetched = Buffer(result, 1, datatype) if rank >= 0 else None
    _accumulate("MPI_Fetch_and_op", origin, fetched, rank, displacement, 1, datatype, op, win)


@mpi()
def Compare_and_swap(
    address: int, compared: int, result: int, datatype: Datatype, rank: int, displacement: int, win: Window
) -> None:
    if place := win.place("MPI_Compare_and_swap", rank, displacement, 1, datatype):
        new, wanted, fetched = (Buffer(one, 1, datatype) for one in (address, compared, result))
        target, at = place
        win.epochs.note_access("MPI_Compare_and_swap", target, at, 1, datatype)
        with win.alone("MPI_Compare_and_swap", rank):
            old = target.read(at, 1, datatype).copy()
            if np.array_equal(old, wanted.packed()):
                target.write(at, 1, datatype, new.packed())
        fetched.fill_from(old)


def _accumulate(
    operation: str,
    origin: Buffer | None,
    fetched: Buffer | None,
    rank: int,
    displacement: int,
    count: int,
    datatype: Datatype,
    op: Operator,
    win: Window,
) -> None:
    """Combine elements at a target with those of the origin, if there is one, and store what was there before in
    `fetched`, if that is wanted."""
    place = win.place(operation, rank, displacement, count, datatype)
    if place is None:
        return
    if not op.is_predefined:
        raise MPIError("MPI_ERR_OP", f"{operation} takes only operators of MPI, not one of the program")
    for buffer in (origin, fetched):
        if buffer is not None:
            _check_length(buffer, count, datatype)
    if origin is not None and (known := op.of_engine(datatype)):
        win.know(*known)
    target, at = place
    if not count * datatype.size:
        return
    win.epochs.note_access(operation, target, at, count, datatype)
    with win.alone(operation, rank):
        here = target.elements(at, count, datatype)
        elements = here or Elements(count, datatype, target.read(at, count, datatype))
        if fetched is not None:
            fetched.fill_from(elements.packed())
        if origin is not None:
            op.combine_packed(origin.packed(), elements)
            if here is None:
                target.write(at, count, datatype, elements.packed())
