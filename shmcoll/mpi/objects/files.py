"""Files: POSIX files of this machine, which the ranks of a communicator have opened together.

Every rank has a descriptor of its own, and a position. The position that they share is a word in shared memory. It is
read and written under a lock of the file itself (an open file description lock, far behind its end), which the kernel
gives back if its holder dies. The threads of a rank have one description together, so they take a lock of the process
first.
"""

import errno
import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects import representations
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.datatypes import BYTE
from shmcoll.mpi.objects.error_handlers import ERRORS_RETURN, ErrorHandler
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.file_views import View
from shmcoll.mpi.objects.handles import FILE
from shmcoll.mpi.objects.info import Info
from shmcoll.mpi.objects.status import Status

RDONLY, RDWR, WRONLY, CREATE = (c[f"MPI_MODE_{name}"] for name in ("RDONLY", "RDWR", "WRONLY", "CREATE"))
EXCL, APPEND, SEQUENTIAL = (c[f"MPI_MODE_{name}"] for name in ("EXCL", "APPEND", "SEQUENTIAL"))
DELETE_ON_CLOSE = c["MPI_MODE_DELETE_ON_CLOSE"]
_LOCKED_BYTE = (1 << 62) - 1
_LOCK = "hhqqi4x"  # struct flock
_PLAIN_ACCESS = {RDONLY: os.O_RDONLY, WRONLY: os.O_WRONLY, RDWR: os.O_RDWR}

_CLASSES = {
    errno.ENOENT: "MPI_ERR_NO_SUCH_FILE",
    errno.EEXIST: "MPI_ERR_FILE_EXISTS",
    errno.EACCES: "MPI_ERR_ACCESS",
    errno.EPERM: "MPI_ERR_ACCESS",
    errno.ENOSPC: "MPI_ERR_NO_SPACE",
    errno.EDQUOT: "MPI_ERR_QUOTA",
    errno.EROFS: "MPI_ERR_READ_ONLY",
    errno.ETXTBSY: "MPI_ERR_FILE_IN_USE",
    errno.EISDIR: "MPI_ERR_BAD_FILE",
    errno.ENOTDIR: "MPI_ERR_BAD_FILE",
    errno.ENAMETOOLONG: "MPI_ERR_BAD_FILE",
}


class NoFile:
    """MPI_FILE_NULL, whose error handler is that of files that could not be opened, and of new ones."""

    handle = FILE.null
    errhandler: ErrorHandler = ERRORS_RETURN


NO_FILE = NoFile()


def failed(error: OSError, path: str, owner: object = NO_FILE) -> MPIError:
    """Return MPI's error for one of the system."""
    return MPIError(_CLASSES.get(error.errno or 0, "MPI_ERR_IO"), f"{path}: {error.strerror}", owner=owner)


class File:
    """An open file."""

    handle = FILE.null

    def __init__(self, comm: Comm, path: str, amode: int, info: dict[str, str]):
        self.path, self.amode, self.info = path, amode, Info(info)
        self.errhandler = NO_FILE.errhandler
        self.is_atomic = False
        self.view = View(0, BYTE, BYTE, "native")
        self.position = 0  # in etypes
        self.begun: Status | None = None  # of a split collective
        _check_amode(amode)
        self._fd = _opened(comm, path, amode)
        self.comm = Comm(comm.native.dup(), None, comm.group, name=comm.name)
        own = self.comm.native.zeros(1, np.int64)
        self._shared = self.comm.native.views(own)[0]
        self._mine = threading.RLock()
        if amode & APPEND:
            self.position = self.size
            if comm.rank == 0:
                self._shared[0] = self.position
        self.comm.native.barrier()

    # --- positions ----------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return os.fstat(self._fd).st_size

    @property
    def end(self) -> int:
        """The position behind the last whole etype of the view that is in the file."""
        return self.view.position_of_end(self.size) // (self.view.etype.size or 1)

    def moved(self, position: int, offset: int, whence: int) -> int:
        """Return a position that a seek asks for.

        Raises:
            MPIError: it is negative, or `whence` is unknown.
        """
        bases = {c["MPI_SEEK_SET"]: 0, c["MPI_SEEK_CUR"]: position, c["MPI_SEEK_END"]: self.end}
        if whence not in bases or bases[whence] + offset < 0:
            raise MPIError("MPI_ERR_ARG", f"a position {offset} from {whence} is not in {self.path}")
        return bases[whence] + offset

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Do so while no other rank or thread does."""
        with self._mine:
            _lock(self._fd, fcntl.F_WRLCK)
            try:
                yield
            finally:
                _lock(self._fd, fcntl.F_UNLCK)

    @property
    def shared_position(self) -> int:
        return int(self._shared[0])

    @shared_position.setter
    def shared_position(self, position: int) -> None:
        self._shared[0] = position

    def etypes(self, length: int) -> int:
        """Return how many etypes so many bytes are."""
        return length // (self.view.etype.size or 1)

    # --- bytes --------------------------------------------------------------------------------------------------------

    def read(self, position: int, buffer: Buffer) -> Status:
        """Read elements from a position on, as many as the file has."""
        self._check(RDONLY | RDWR, "is open for writing only", "MPI_ERR_ACCESS")
        representation = representations.find(self.view.datarep)
        length = buffer.count * representation.size(buffer.datatype)
        parts = []
        for offset, part in self._ranges(position, length):
            parts.append(self._read(offset, part))
            if len(parts[-1]) < part:
                break
        data = np.frombuffer(b"".join(parts), np.uint8)
        return Status(0, 0, 0, representation.load(buffer, data))

    def write(self, position: int, buffer: Buffer) -> Status:
        """Write elements from a position on."""
        self._check(WRONLY | RDWR, "is open for reading only", "MPI_ERR_READ_ONLY")
        data = representations.find(self.view.datarep).stored(buffer)
        memory, start = memoryview(np.ascontiguousarray(data)), 0  # type: ignore[arg-type]
        with self.locked() if self.is_atomic else _NOTHING:
            for offset, part in self._ranges(position, len(memory)):
                self._write(memory[start : start + part], offset)
                start += part
        return Status(0, 0, 0, buffer.bytes)

    def _ranges(self, position: int, length: int) -> Iterator[tuple[int, int]]:
        return self.view.ranges(position * self.view.etype.size, length)

    def _read(self, offset: int, length: int) -> bytes:
        parts, missing = [], length
        while missing and (part := self._call(os.pread, self._fd, missing, offset)):
            parts.append(part)
            offset, missing = offset + len(part), missing - len(part)
        return b"".join(parts)

    def _write(self, memory: memoryview, offset: int) -> None:
        while memory:
            done = self._call(os.pwrite, self._fd, memory, offset)
            memory, offset = memory[done:], offset + done

    def _call(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except OSError as error:
            raise failed(error, self.path, self) from error

    def _check(self, modes: int, why: str, error: str) -> None:
        if not self.amode & modes:
            raise MPIError(error, f"{self.path} {why}")

    # --- all ranks ----------------------------------------------------------------------------------------------------

    def resize(self, size: int, *, only_grow: bool = False) -> None:
        """Set the length of the file."""
        if self.comm.rank == 0:
            if not only_grow:
                self._call(os.ftruncate, self._fd, size)
            elif size > self.size:
                self._call(os.posix_fallocate, self._fd, 0, size)
        self.comm.native.barrier()

    def sync(self) -> None:
        self._call(os.fsync, self._fd)
        self.comm.native.barrier()

    def close(self) -> None:
        self.comm.native.barrier()
        os.close(self._fd)
        if self.amode & DELETE_ON_CLOSE and self.comm.rank == 0:
            os.unlink(self.path)  # noqa: PTH108 - of bytes that are no text, too
        self.comm.native.barrier()
        del self._shared
        self.comm.release()


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


_NOTHING = _Nothing()


def _check_amode(amode: int) -> None:
    access = amode & (RDONLY | RDWR | WRONLY)
    if access not in _PLAIN_ACCESS:
        raise MPIError("MPI_ERR_AMODE", "give one of MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY", owner=NO_FILE)
    if access == RDONLY and amode & (CREATE | EXCL):
        raise MPIError("MPI_ERR_AMODE", "a file that is only read cannot be created", owner=NO_FILE)
    if access == RDWR and amode & SEQUENTIAL:
        raise MPIError("MPI_ERR_AMODE", "MPI_MODE_SEQUENTIAL does not go with MPI_MODE_RDWR", owner=NO_FILE)


def _opened(comm: Comm, path: str, amode: int) -> int:
    """Open the file on all ranks, or on none. Rank 0 makes it."""
    flags = _PLAIN_ACCESS[amode & (RDONLY | RDWR | WRONLY)] | os.O_CLOEXEC
    fd, number = -1, 0
    for turn in range(2):
        if (comm.rank == 0) == (turn == 0):
            made = (os.O_CREAT if amode & CREATE else 0) | (os.O_EXCL if amode & EXCL else 0)
            try:
                fd = os.open(path, flags | (made if turn == 0 else 0), 0o666)
            except OSError as error:
                number = error.errno or errno.EIO
        worst = int(comm.native.all_reduce(np.array([number]), "max")[0])
        if worst:
            if fd >= 0:
                os.close(fd)
            raise failed(OSError(number or worst, os.strerror(number or worst)), path)
    return fd


def _lock(fd: int, kind: int) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, struct.pack(_LOCK, kind, os.SEEK_SET, _LOCKED_BYTE, 1, 0))
