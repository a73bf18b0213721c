"""MPI's chapter on files: opening, views, positions. `file_accesses.py` has reads and writes."""

import os

import numpy as np

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers, put_text, text_at
from shmcoll.mpi.chapters import groups
from shmcoll.mpi.chapters.datatype_contents import for_program
from shmcoll.mpi.objects import representations
from shmcoll.mpi.objects.communicators import Comm, Group
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.file_views import View
from shmcoll.mpi.objects.files import File, failed
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import FILE
from shmcoll.mpi.objects.info import Info, made

CURRENT = c["MPI_DISPLACEMENT_CURRENT"]


@mpi()
def File_open(comm: Comm, name: int, amode: int, info: Info | None) -> File:
    comm.check_intra()
    file = File(comm, text_at(name), amode, info or {})
    FILE.add(file)
    return file


@mpi(inout=("fh",))
def File_close(fh: Numbers) -> None:
    file = FILE.find(fh.value)
    file.close()
    FILE.remove(file)
    fh.value = FILE.null


@mpi()
def File_delete(name: int, _info: Info | None) -> None:
    path = text_at(name)
    try:
        os.unlink(path)  # noqa: PTH108 - of bytes that are no text, too
    except OSError as error:
        raise failed(error, path) from error


@mpi()
def File_set_size(file: File, size: int) -> None:
    _check_length(size)
    file.resize(size)


@mpi()
def File_preallocate(file: File, size: int) -> None:
    _check_length(size)
    file.resize(size, only_grow=True)


@mpi()
def File_get_size(file: File) -> int:
    return file.size


@mpi()
def File_get_group(file: File) -> Group:
    return groups.made(file.comm.group.ranks)


@mpi()
def File_get_amode(file: File) -> int:
    return file.amode


@mpi()
def File_set_info(file: File, info: Info | None) -> None:
    file.info.update(info or {})


@mpi()
def File_get_info(file: File) -> Info:
    return made(file.info)


@mpi()
def File_set_view(
    file: File, displacement: int, etype: Datatype, filetype: Datatype, datarep: int, info: Info | None
) -> None:
    representation = text_at(datarep)
    representations.find(representation)
    if displacement == CURRENT:
        displacement = file.view.offset(file.shared_position * file.view.etype.size)
    if displacement < 0:
        raise MPIError("MPI_ERR_ARG", f"displacement {displacement} is negative")
    if etype.size == 0 or filetype.size % etype.size:
        raise MPIError("MPI_ERR_ARG", f"{filetype.in_words} does not consist of whole {etype.in_words}")
    file.info.update(info or {})
    file.view, file.position = View(displacement, etype, filetype, representation), 0
    file.comm.native.barrier()
    file.shared_position = 0
    file.comm.native.barrier()


@mpi()
def File_get_view(file: File, datarep: int) -> tuple[int, Datatype, Datatype]:
    """Derived datatypes are returned as copies, which the program frees."""
    put_text(datarep, file.view.datarep, c["MPI_MAX_DATAREP_STRING"])
    return file.view.displacement, for_program(file.view.etype), for_program(file.view.filetype)


@mpi()
def File_get_type_extent(_file: File, datatype: Datatype) -> int:
    return datatype.extent


@mpi()
def File_set_atomicity(file: File, flag: int) -> None:
    flags = file.comm.native.all_gather(np.array([bool(flag)]))
    if len(set(flags.tolist())) > 1:
        raise MPIError("MPI_ERR_NOT_SAME", f"the ranks pass {flags.tolist()} as flags")
    file.is_atomic = bool(flag)


@mpi()
def File_get_atomicity(file: File) -> bool:
    return file.is_atomic


@mpi()
def File_sync(file: File) -> None:
    file.sync()


@mpi()
def File_seek(file: File, offset: int, whence: int) -> None:
    file.position = file.moved(file.position, offset, whence)


@mpi()
def File_get_position(file: File) -> int:
    return file.position


@mpi()
def File_seek_shared(file: File, offset: int, whence: int) -> None:
    asked = file.comm.native.all_gather(np.array([[offset, whence]]))
    if len(np.unique(asked.reshape(-1, 2), axis=0)) > 1:
        raise MPIError("MPI_ERR_NOT_SAME", f"the ranks seek {asked.reshape(-1, 2).tolist()}")
    if file.comm.rank == 0:
        file.shared_position = file.moved(file.shared_position, offset, whence)
    file.comm.native.barrier()


@mpi()
def File_get_position_shared(file: File) -> int:
    return file.shared_position


@mpi()
def File_get_byte_offset(file: File, offset: int) -> int:
    return file.view.offset(offset * file.view.etype.size)


def _check_length(size: int) -> None:
    if size < 0:
        raise MPIError("MPI_ERR_ARG", f"size {size} is negative")


@mpi(with_form=True)
def Register_datarep(large: bool, name: int, read: int, write: int, extent: int, extra: int) -> None:
    representations.register(text_at(name), representations.OfProgram(read, write, extent, extra, large))
