"""MPI's chapter on collectives: reductions.

The engine makes those that it knows. The others gather the elements of all ranks, and each rank that needs the result
combines them in the order of the ranks (`objects/operators.py`).

Cost of the others, with P ranks and n bytes: an all_gather of n bytes, or a gather, and P - 1 combinations.
"""

from collections.abc import Sequence

import numpy as np

from shmcoll.mpi.abi.memory import IN_PLACE, Numbers
from shmcoll.mpi.objects.buffers import Buffer, Elements, check_apart
from shmcoll.mpi.objects.collective import Perform, collective
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import OP
from shmcoll.mpi.objects.operators import Operator


@mpi(name="Op_create")
def op_create(function: int, commutes: int) -> Operator:
    return _added(Operator(address=function, commutes=bool(commutes)))


@mpi(inout=("op",))
def Op_free(op: Numbers) -> None:
    operator = OP.find(op.value)
    if operator.is_predefined:
        raise MPIError("MPI_ERR_OP", f"{operator.name} cannot be freed")
    OP.remove(operator)
    op.value = OP.null


@mpi()
def Op_commutative(op: Operator) -> bool:
    return op.commutes


def _added(operator: Operator) -> Operator:
    OP.add(operator)
    return operator


@mpi()
def Reduce_local(source: int, target: int, count: int, datatype: Datatype, op: Operator) -> None:
    op.of_engine(datatype)
    op.combine(Buffer(source, count, datatype), Buffer(target, count, datatype))


@collective()
def Allreduce(source: int, target: int, count: int, datatype: Datatype, op: Operator, comm: Comm) -> Perform:
    result = Buffer(target, count, datatype)
    own = result if source == IN_PLACE else Buffer(source, count, datatype)
    check_apart(own, result)
    known = _of_engine(op, datatype, comm)

    def perform() -> None:
        data = own.packed()
        if known is not None:
            into = result.target()
            comm.native.all_reduce(data.view(known[1]), known[0], out=into.view(known[1]))
            result.fill(into)
        else:
            result.fill_from(_combined(comm.rows(data), op, own)[-1])

    return perform


@collective()
def Reduce(source: int, target: int, count: int, datatype: Datatype, op: Operator, root: int, comm: Comm) -> Perform:
    comm.check_root(root)
    result = Buffer(target, count, datatype) if comm.is_root(root) else None
    own = result if (source == IN_PLACE or comm.is_inter) and result else Buffer(source, count, datatype)
    check_apart(own, result or own)
    known = _of_engine(op, datatype, comm)

    def perform() -> None:
        if known is None:
            data = own.packed() if comm.is_served(root) else np.empty(0, np.uint8)
            rows, _ = comm.native.gather_v(data, comm.native_root(root))
            if result is not None and rows is not None:
                result.fill_from(_combined(rows.reshape(comm.peers, -1), op, own)[-1])
            return
        data = own.packed()
        if result is None:
            comm.native.reduce(data.view(known[1]), root, known[0])
        else:
            into = result.target()
            comm.native.reduce(data.view(known[1]), root, known[0], out=into.view(known[1]))
            result.fill(into)

    return perform


@collective()
def Reduce_scatter_block(source: int, target: int, count: int, datatype: Datatype, op: Operator, comm: Comm) -> Perform:
    return _reduce_scattered(source, target, [count] * comm.size, datatype, op, comm)


@collective()
def Reduce_scatter(source: int, target: int, counts: Numbers, datatype: Datatype, op: Operator, comm: Comm) -> Perform:
    return _reduce_scattered(source, target, counts.read(comm.size), datatype, op, comm)


def _reduce_scattered(
    source: int, target: int, counts: Sequence[int], datatype: Datatype, op: Operator, comm: Comm
) -> Perform:
    own = Buffer(target if source == IN_PLACE else source, sum(counts), datatype)
    result = Buffer(target, counts[comm.rank], datatype)
    if source != IN_PLACE:
        check_apart(own, result)
    first = sum(counts[: comm.rank])
    known = _of_engine(op, datatype, comm)

    def perform() -> None:
        data = own.packed()
        if known is not None:
            unit = known[1].itemsize
            lengths = [count * datatype.size // unit for count in counts]
            into = result.target()
            comm.native.reduce_scatter_v(data.view(known[1]), lengths, known[0], out=into.view(known[1]))
            result.fill(into)
            return
        rows = comm.rows(data)
        start = first * datatype.size
        result.fill_from(_combined(rows, op, own)[-1][start : start + result.bytes])

    return perform


@collective()
def Scan(source: int, target: int, count: int, datatype: Datatype, op: Operator, comm: Comm) -> Perform:
    return _scanned("scan", source, target, count, datatype, op, comm)


@collective()
def Exscan(source: int, target: int, count: int, datatype: Datatype, op: Operator, comm: Comm) -> Perform:
    return _scanned("exscan", source, target, count, datatype, op, comm)


def _scanned(name: str, source: int, target: int, count: int, datatype: Datatype, op: Operator, comm: Comm) -> Perform:
    """Scan, with this rank's own elements or without. Without them rank 0 has no result: its memory stays."""
    comm.check_intra()
    last = comm.rank if name == "scan" else comm.rank - 1
    own = Buffer(target if source == IN_PLACE else source, count, datatype)
    result = Buffer(target, count, datatype) if last >= 0 else None
    if source != IN_PLACE:
        check_apart(own, result or own)
    known = _of_engine(op, datatype, comm)

    def perform() -> None:
        data = own.packed()
        if known is not None:
            into = result.target() if result else None
            getattr(comm.native, name)(data.view(known[1]), known[0], out=None if into is None else into.view(known[1]))
            if result is not None and into is not None:
                result.fill(into)
        else:
            rows = comm.rows(data)
            if result is not None:
                result.fill_from(_combined(rows[: last + 1], op, own)[-1])

    return perform


def _of_engine(op: Operator, datatype: Datatype, comm: Comm) -> tuple[str, np.dtype] | None:
    """Return the engine's operator and dtype; None if it has not both, or there are two sides."""
    known = op.of_engine(datatype)
    return None if comm.is_inter else known


def _combined(rows: np.ndarray, op: Operator, like: Buffer) -> list[np.ndarray]:
    """Return, for each rank, the packed elements of all ranks up to it, combined. like: elements like these."""
    results = [rows[0]]
    for row in rows[1:]:
        first, second = (Elements(like.count, like.datatype, data) for data in (results[-1], row))
        op.combine(first, second)
        results.append(second.packed().copy())
    return results
