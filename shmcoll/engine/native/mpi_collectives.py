"""MPI's collectives of ordinary communicators, for datatypes whose elements are runs of bytes, in native code.

All of them but reductions move bytes. So what ranks exchange has the same dtype on all of them, whatever datatypes they
have given, and whether native code or Python makes the call. See `mpi_entry.py`.
"""

from shmcoll.engine.atomics import call_long, peek
from shmcoll.engine.native import mpi_table as t
from shmcoll.engine.native.mpi_entry import BYTE, IN_PLACE, TO_PYTHON, bytes_of, is_memory, python_function, run, table
from shmcoll.engine.native.mpi_table import find, int_of
from shmcoll.engine.native.tables import dtype_in


def barrier(code, own, _large):
    def native(comm):
        known = find(table(), t.COMMS, comm)
        answer = run(peek(known + t.CONTEXT), code, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) if known else TO_PYTHON
        return call_long(python_function(own), comm) if answer == TO_PYTHON else answer

    return native


def broadcast(code, own, large):
    def native(buffer, count, datatype, root, comm):
        known, length = find(table(), t.COMMS, comm), bytes_of(datatype, count if large else int_of(count))
        answer = TO_PYTHON
        if known and length > 0 and is_memory(buffer):
            answer = run(
                peek(known + t.CONTEXT), code, 0, int_of(root), 0, BYTE, buffer, length, BYTE, buffer, length, 0, 0
            )
        return call_long(python_function(own), buffer, count, datatype, root, comm) if answer == TO_PYTHON else answer

    return native


def all_reduce(code, own, large):
    def native(source, target, count, datatype, op, comm):
        known, x = find(table(), t.COMMS, comm), target if source == IN_PLACE else source
        word, number = typed(datatype, op, count if large else int_of(count), x, target)
        answer = TO_PYTHON
        if known and word:
            answer = run(
                peek(known + t.CONTEXT), code, reduction(op), 0, 0, word, x, number, word, target, number, 0, 0
            )
        if answer == TO_PYTHON:
            return call_long(python_function(own), source, target, count, datatype, op, comm)
        return answer

    return native


def reduce(code, own, large):
    def native(source, target, count, datatype, op, root, comm):
        known, at = find(table(), t.COMMS, comm), int_of(root)
        answer = TO_PYTHON
        if known:
            is_root = at == peek(known + t.RANK)
            x = target if is_root and source == IN_PLACE else source
            word, number = typed(datatype, op, count if large else int_of(count), x, target if is_root else x)
            if word:
                into = word if is_root else 0
                answer = run(
                    peek(known + t.CONTEXT), code, reduction(op), at, 0, word, x, number, into, target, number, 0, 0
                )
        if answer == TO_PYTHON:
            return call_long(python_function(own), source, target, count, datatype, op, root, comm)
        return answer

    return native


def all_gather(code, own, large):
    def native(source, count, datatype, target, recvcount, recvtype, comm):
        known, length = find(table(), t.COMMS, comm), bytes_of(recvtype, recvcount if large else int_of(recvcount))
        answer = TO_PYTHON
        if known and length > 0 and is_memory(target):
            x, given = target + peek(known + t.RANK) * length, length
            if source != IN_PLACE:
                x, given = source, bytes_of(datatype, count if large else int_of(count))
            if given == length and is_memory(x):
                total = length * peek(known + t.SIZE)
                answer = run(peek(known + t.CONTEXT), code, 0, 0, 0, BYTE, x, length, BYTE, target, total, 0, 0)
        if answer == TO_PYTHON:
            return call_long(python_function(own), source, count, datatype, target, recvcount, recvtype, comm)
        return answer

    return native


def all_to_all(code, own, large):
    def native(source, count, datatype, target, recvcount, recvtype, comm):
        known, length = find(table(), t.COMMS, comm), bytes_of(recvtype, recvcount if large else int_of(recvcount))
        answer = TO_PYTHON
        if known and length > 0 and is_memory(target):
            x, given = target, length
            if source != IN_PLACE:
                x, given = source, bytes_of(datatype, count if large else int_of(count))
            if given == length and is_memory(x):
                total = length * peek(known + t.SIZE)
                answer = run(peek(known + t.CONTEXT), code, 0, 0, 0, BYTE, x, total, BYTE, target, total, 0, 0)
        if answer == TO_PYTHON:
            return call_long(python_function(own), source, count, datatype, target, recvcount, recvtype, comm)
        return answer

    return native


def gather(code, own, large):
    def native(source, count, datatype, target, recvcount, recvtype, root, comm):
        known, at = find(table(), t.COMMS, comm), int_of(root)
        answer = TO_PYTHON
        if known:
            x, length = source, -1
            if source != IN_PLACE:
                length = bytes_of(datatype, count if large else int_of(count))
            if at != peek(known + t.RANK):
                if length > 0 and is_memory(x):
                    answer = run(peek(known + t.CONTEXT), code, 0, at, 0, BYTE, x, length, 0, 0, 0, 0, 0)
            else:
                part = bytes_of(recvtype, recvcount if large else int_of(recvcount))
                if source == IN_PLACE:
                    x, length = target + at * part, part
                if length > 0 and part == length and is_memory(x) and is_memory(target):
                    total = part * peek(known + t.SIZE)
                    answer = run(peek(known + t.CONTEXT), code, 0, at, 0, BYTE, x, length, BYTE, target, total, 0, 0)
        if answer == TO_PYTHON:
            return call_long(python_function(own), source, count, datatype, target, recvcount, recvtype, root, comm)
        return answer

    return native


def scatter(code, own, large):
    def native(source, count, datatype, target, recvcount, recvtype, root, comm):
        known, at = find(table(), t.COMMS, comm), int_of(root)
        answer = TO_PYTHON
        if known:
            out, length = target, -1
            if target != IN_PLACE:
                length = bytes_of(recvtype, recvcount if large else int_of(recvcount))
            if at != peek(known + t.RANK):
                if length > 0 and is_memory(out):
                    answer = run(peek(known + t.CONTEXT), code, 0, at, 0, BYTE, out, length, BYTE, out, length, 0, 0)
            else:
                part = bytes_of(datatype, count if large else int_of(count))
                if target == IN_PLACE:
                    out, length = source + at * part, part
                if length > 0 and part == length and is_memory(out) and is_memory(source):
                    total = part * peek(known + t.SIZE)
                    answer = run(peek(known + t.CONTEXT), code, 0, at, 0, BYTE, source, total, BYTE, out, length, 0, 0)
        if answer == TO_PYTHON:
            return call_long(python_function(own), source, count, datatype, target, recvcount, recvtype, root, comm)
        return answer

    return native


def typed(datatype, op, count, x, out):
    """Return the type word and the number of elements to be computed with; a type word of 0 if that is not possible
    here."""
    known, operator = find(table(), t.TYPES, datatype), find(table(), t.OPERATORS, op)
    word, number = 0, 0
    if known and operator and count > 0 and is_memory(x) and is_memory(out):
        kind = peek(known + t.TYPE)
        if (peek(operator + t.DTYPES) >> dtype_in(kind)) & 1 and (x | out) % peek(known + t.ALIGNMENT) == 0:
            word, number = kind, count * peek(known + t.ELEMENTS)
    return word, number


def reduction(op):
    return peek(find(table(), t.OPERATORS, op) + t.REDUCTION)


#: see `mpi_functions.py`
FUNCTIONS = {
    "Barrier": (barrier, "barrier", 1),
    "Bcast": (broadcast, "broadcast", 5),
    "Allreduce": (all_reduce, "all_reduce", 6),
    "Reduce": (reduce, "reduce", 7),
    "Allgather": (all_gather, "all_gather", 7),
    "Alltoall": (all_to_all, "all_to_all", 7),
    "Gather": (gather, "gather", 8),
    "Scatter": (scatter, "scatter", 8),
}
