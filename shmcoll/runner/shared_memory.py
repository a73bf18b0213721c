"""Arrays that the caller of `shmcoll.run` and its ranks map without copying.

`shared` copies an array into a file in memory. The file has no name: only a process that holds its descriptor can map
it. The descriptor travels over the socket to the server, which passes it to the ranks (`protocol.py`). So no process
can find the memory by a name, and the kernel frees it when the last mapping and the last descriptor are gone.

The steps, in this order:

    caller    makes the file, commits its memory (so that too little of it is an error and never a SIGBUS), seals its
              size, maps it; every array that is pickled for a call and is in this memory becomes a `Handle`, and the
              descriptor of its file is added to those of the call
    rank      receives the descriptors (`received`) before it unpickles the call; checks owner, kind, seals and size of
              each file that a handle names; maps it once per call, however many arrays are in it

No process waits here, and nothing orders the accesses. A call begins after the caller has sent it, and the caller
continues after all ranks have answered. In between the ranks and the caller order their accesses by collectives, or do
not touch the array.
"""

import contextlib
import fcntl
import mmap
import os
import stat
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shmcoll.engine.memory import arena_file
from shmcoll.engine.system.descriptors import File, file_of
from shmcoll.engine.system.tracebacks import border
from shmcoll.errors import ArenaError

_OWN_DESCRIPTOR: dict[str, Any] = {} if sys.version_info < (3, 13) else {"trackfd": False}  # else mmap keeps one more


@border
def shared(array: ArrayLike) -> NDArray[Any]:
    """Copy an array into memory that `shmcoll.run` passes to its ranks without copying.

    The result is an ordinary numpy array. When it, or a view of it, is an argument of `shmcoll.run`, `shmcoll.map` or
    `Ranks.run`, or is used by the function, the ranks map the same memory, and the caller finds there what they have
    written after the call. While ranks run, the caller must not write what they read. In all other cases the array is
    pickled by value, also when a rank returns it. The memory is freed when no process has an array in it any more. To
    share arrays among themselves, ranks use `Communicator.zeros`, `empty` and `full`.

    Args:
        array: array or nested sequence of any dtype except those that hold Python objects. An array that is shared
            already is returned as it is.

    Returns:
        An array of the same shape, dtype and values, which can be written.

    Raises:
        TypeError: the dtype holds Python objects, or the array is masked.
        ArenaError: there is too little memory.
        OSError: the array exceeds the limit on the size of files (ulimit -f), or no descriptor is free.

    Example:
        >>> x = shmcoll.shared(np.zeros(4))
        >>> def fill(x):
        ...     rank = shmcoll.init().rank
        ...     x[rank] = rank + 1
        >>> _ = shmcoll.run(fill, 4, x)
        >>> x
        array([1., 2., 3., 4.])
    """
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("shared: the array is masked, and its mask would be lost; pass array.filled(value)")
    source = np.asarray(array)
    if region_of(source) is not None:
        return source
    if source.dtype.hasobject:
        raise TypeError(
            f"shared: dtype {source.dtype} holds Python objects, which other processes cannot map; "
            f"convert the array to a dtype of fixed size (astype), or pass it as it is to be pickled"
        )
    order: Literal["C", "F"] = "F" if source.flags.f_contiguous and not source.flags.c_contiguous else "C"
    result: np.ndarray = np.ndarray(source.shape, source.dtype, buffer=_new_region(source.nbytes), order=order)
    result[...] = source
    return result


class Region(mmap.mmap):
    """The memory of a shared array, with a descriptor of its file."""

    fd: int
    file: File | None  # the file of the descriptor

    def __new__(cls, fd: int) -> "Region":
        """Map the whole file, and own the descriptor."""
        region = super().__new__(cls, fd, 0, **_OWN_DESCRIPTOR)
        region.fd, region.file = fd, file_of(fd)
        weakref.finalize(region, _close, fd, region.file).atexit = False
        return region

    @property
    def address(self) -> int:
        return int(np.frombuffer(self, np.uint8).ctypes.data)


def region_of(array: np.ndarray) -> Region | None:
    """Return the shared memory that an array is in; None for other arrays."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, Region) else None


@dataclass(frozen=True)
class Handle:
    """An array in shared memory, on its way. index: the number of its descriptor in the call. inode: that of its
    file."""

    index: int
    inode: int
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writeable: bool


def handle(array: np.ndarray, region: Region, index: int) -> Handle:
    """Return the handle of an array in this region. Raises `ArenaError` if the descriptor is not the region's any
    more."""
    if region.file is None or file_of(region.fd) != region.file:
        raise ArenaError(
            f"the program has closed descriptor {region.fd}, which a shared array needs to be sent; "
            f"make the array again: shmcoll.shared(array.copy())"
        )
    offset = array.__array_interface__["data"][0] - region.address
    flags, inode = array.flags.writeable, os.fstat(region.fd).st_ino
    return Handle(index, inode, offset, array.dtype, array.shape, array.strides, flags)


def array_of(sent: Handle) -> np.ndarray:
    """Return, in a rank, the array of a handle. Raises `ArenaError` if what has arrived is not the caller's memory."""
    region = _regions.get(sent.inode)
    if region is None:
        fd = descriptor_of(sent.index)
        try:
            check(fd, sent.inode)
            region = Region(fd)
        except BaseException:
            os.close(fd)
            raise
        _regions[sent.inode] = region
    array: np.ndarray = np.ndarray(sent.shape, sent.dtype, buffer=region, offset=sent.offset, strides=sent.strides)
    array.flags.writeable = sent.writeable
    return array


class Passed:
    """A descriptor that is sent to the ranks with a call. Each of them unpickles the number of a copy, which it
    owns."""

    def __init__(self, fd: int):
        self.fd = fd


def descriptor_of(index: int) -> int:
    """Return, in a rank, a copy of a descriptor of the present call."""
    if not index < len(_descriptors):
        raise ArenaError("a shared array was sent without its memory: it can be unpickled by the ranks of its call")
    return fcntl.fcntl(_descriptors[index], fcntl.F_DUPFD_CLOEXEC, 3)


_descriptors: list[int] = []
_regions: dict[int, Region] = {}  # by the number of the file; it lives as long as its region


@contextlib.contextmanager
def received(descriptors: list[int]) -> Iterator[None]:
    """Make handles refer to these descriptors in the block, in a rank: those of a call, and in it those of a packet.
    Closes them afterwards."""
    global _descriptors
    files = [file_of(fd) for fd in descriptors]
    outer, _descriptors = _descriptors, descriptors
    try:
        yield
    finally:
        _descriptors = outer
        if not outer:
            _regions.clear()  # arrays that the program keeps hold their memory
        for fd, file in zip(descriptors, files, strict=True):
            _close(fd, file)


def check(fd: int, inode: int | None = None) -> None:
    """Raise `ArenaError` for a descriptor that has arrived and is not one of a file of ours. inode: the file's."""
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode) or inode not in (None, info.st_ino):
        raise ArenaError("the descriptor of a shared array refers to another file: the program has closed it")
    if info.st_uid != os.geteuid():
        raise ArenaError(f"the memory of a shared array belongs to uid {info.st_uid}, not to uid {os.geteuid()}")
    if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & arena_file.SEALS != arena_file.SEALS:
        raise ArenaError("the memory of a shared array can still change its size; it was not made by shmcoll.shared")


def _new_region(size: int) -> Region:
    length = max(size, 1)
    fd = os.memfd_create("shmcoll-shared", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        arena_file.allocate(fd, length, "a shared array")
        arena_file.seal(fd)
        return Region(fd)
    except BaseException:
        os.close(fd)
        raise


def _close(fd: int, file: File | None) -> None:
    """Close a descriptor, unless the program has closed it and another file has its number now."""
    if file_of(fd) == file:
        os.close(fd)
