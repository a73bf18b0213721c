"""MPI's chapter on files: reads and writes, in all their forms.

A form says from which position on a rank reads or writes, and which position moves:

    _at         at an offset that is given; no position moves
    (none)      at this rank's own position
    _shared     at the shared position, one rank at a time
    _ordered    at the shared position, the ranks in their order, all together

`_all` means that all ranks call it; here each does its own part. A split collective (`_begin`, `_end`) is done when it
begins, and a nonblocking one before it returns: the page cache is memory.
"""

from collections.abc import Callable

import numpy as np

from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.files import SEQUENTIAL, File
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.requests import Request, WorkRequest, added
from shmcoll.mpi.objects.status import Status

Access = Callable[[File, int, Buffer], Status]


def _own(access: Access, file: File, buffer: Buffer) -> Status:
    """Access at this rank's position."""
    _check_random(file)
    status = access(file, file.position, buffer)
    file.position += file.etypes(status.bytes)
    return status


def _shared(access: Access, file: File, buffer: Buffer) -> Status:
    """Access at the shared position. It moves before the access, so that ranks do not wait for each other's."""
    with file.locked():
        position = file.shared_position
        room = min(file.etypes(buffer.bytes), max(file.end - position, 0)) if access is File.read else None
        file.shared_position = position + (file.etypes(buffer.bytes) if room is None else room)
    return access(file, position, buffer)


def _ordered(access: Access, file: File, buffer: Buffer) -> Status:
    """Access at the shared position, behind the ranks before this one."""
    native = file.comm.native
    counts = native.all_gather(np.array([file.etypes(buffer.bytes)]))
    position = file.shared_position
    native.barrier()  # all have read it
    status = access(file, position + int(counts[: native.rank].sum()), buffer)
    done = native.all_gather(np.array([file.etypes(status.bytes)]))
    if native.rank == 0:
        file.shared_position = position + int(done.sum())
    native.barrier()
    return status


def _check_random(file: File) -> None:
    if file.amode & SEQUENTIAL:
        raise MPIError("MPI_ERR_UNSUPPORTED_OPERATION", f"{file.path} is open with MPI_MODE_SEQUENTIAL")


def _ended(file: File) -> Status:
    status, file.begun = file.begun, None
    if status is None:
        raise MPIError("MPI_ERR_OTHER", "no split collective of this file has begun")
    return status


def _begin(file: File, status: Callable[[], Status]) -> None:
    if file.begun is not None:
        raise MPIError("MPI_ERR_OTHER", "a split collective of this file has begun and not ended")
    file.begun = status()


def _positioned(name: str, access: Access, suffix: str, place: Callable[[Access, File, Buffer], Status]) -> None:
    """Register the forms of an access at a position that the file has."""
    is_collective = suffix in ("_all", "_ordered")

    @mpi(name=f"File_{name}{suffix}")
    def blocking(file: File, address: int, count: int, datatype: Datatype, status: int) -> None:
        place(access, file, Buffer(address, count, datatype)).store(status)

    @mpi(name=f"File_i{name}{suffix}")
    def nonblocking(file: File, address: int, count: int, datatype: Datatype) -> Request:
        return _completed(file, place(access, file, Buffer(address, count, datatype)))

    if is_collective:

        @mpi(name=f"File_{name}{suffix}_begin")
        def begin(file: File, address: int, count: int, datatype: Datatype) -> None:
            _begin(file, lambda: place(access, file, Buffer(address, count, datatype)))

        @mpi(name=f"File_{name}{suffix}_end")
        def end(file: File, _address: int, status: int) -> None:
            _ended(file).store(status)


def _explicit(name: str, access: Access, suffix: str) -> None:
    """Register the forms of an access at an offset that is given."""

    def at(file: File, offset: int, buffer: Buffer) -> Status:
        _check_random(file)
        if offset < 0:
            raise MPIError("MPI_ERR_ARG", f"offset {offset} is negative")
        return access(file, offset, buffer)

    @mpi(name=f"File_{name}_at{suffix}")
    def blocking(file: File, offset: int, address: int, count: int, datatype: Datatype, status: int) -> None:
        at(file, offset, Buffer(address, count, datatype)).store(status)

    @mpi(name=f"File_i{name}_at{suffix}")
    def nonblocking(file: File, offset: int, address: int, count: int, datatype: Datatype) -> Request:
        return _completed(file, at(file, offset, Buffer(address, count, datatype)))

    if suffix:

        @mpi(name=f"File_{name}_at{suffix}_begin")
        def begin(file: File, offset: int, address: int, count: int, datatype: Datatype) -> None:
            _begin(file, lambda: at(file, offset, Buffer(address, count, datatype)))

        @mpi(name=f"File_{name}_at{suffix}_end")
        def end(file: File, _address: int, status: int) -> None:
            _ended(file).store(status)


def _completed(file: File, status: Status) -> Request:
    request = WorkRequest(file.comm, None)
    request.status = status
    return added(request)


for _name, _access in (("read", File.read), ("write", File.write)):
    for _suffix, _place in (("", _own), ("_all", _own), ("_shared", _shared), ("_ordered", _ordered)):
        _positioned(_name, _access, _suffix, _place)
    for _suffix in ("", "_all"):
        _explicit(_name, _access, _suffix)
