"""The file of an arena: how it is made, committed, sealed, named and checked. `runner/shared_memory.py` has such files,
too.

There are two kinds. Ranks that inherit the descriptor use a memfd: its size is limited only by the memory of the
machine, however small /dev/shm is (64 MiB in a container). Ranks of other launchers must meet under a name, and only a
file in /dev/shm can have one. The finished arena is given its name in one step, so that no process finds an unfinished
one. The size of a memfd is sealed, and so are the seals: no process can cut memory off that ranks have mapped, or
forbid them to map it. If the system refuses to make a memfd, a file in /dev/shm without a name (O_TMPFILE) is used.
"""

import errno
import fcntl
import os
import stat

from shmcoll.engine import layout
from shmcoll.engine.memory.available_memory import available, mib, room
from shmcoll.engine.system.refusals import refused
from shmcoll.errors import ArenaError

FOLDER = "/dev/shm"
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def anonymous() -> int:
    """Return a descriptor on shared memory for ranks that inherit it."""
    try:
        fd = os.memfd_create("shmcoll", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:  # a sandbox may forbid it
        return in_dev_shm()
    try:
        os.fchmod(fd, 0o600)
    except OSError:
        os.close(fd)
        return in_dev_shm()
    return fd


def in_dev_shm() -> int:
    """Return a descriptor on a file in /dev/shm that has no name yet: a kill leaves nothing."""
    try:
        return os.open(FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as e:
        reason = refused(e) or (
            f"{e.strerror}. Ranks that mpiexec, torchrun or a shell has started meet there: start them with shmrun, or "
            f"give the container one (mount -t tmpfs tmpfs {FOLDER})"
        )
        raise ArenaError(f"cannot create shared memory in {FOLDER}: {reason}") from None


def allocate(fd: int, length: int, purpose: str) -> None:
    """Back the beginning of a file that has just been made with memory."""
    if available(fd) < length:
        raise too_small(purpose, length, fd)
    try:
        if not _has_no_fallocate(fd, length):
            return
        for begin in range(0, length, 1 << 16):
            os.pwrite(fd, bytes(min(1 << 16, length - begin)), begin)
    except OSError as e:
        if e.errno == errno.EFBIG:
            text = f"{purpose} of {mib(length)} exceeds the limit on the size of files (ulimit -f)"
            raise OSError(errno.EFBIG, text) from None
        raise too_small(purpose, length, fd) from None


def _has_no_fallocate(fd: int, length: int) -> bool:
    """Commit the beginning of a file, or return whether the system refuses that call: a sandbox may."""
    try:
        os.posix_fallocate(fd, 0, length)
    except OSError as e:
        if e.errno in (errno.EPERM, errno.ENOSYS):
            return True
        raise
    return False


def seal(fd: int) -> None:
    """Fix the size of a memfd."""
    if not _seals(fd) & fcntl.F_SEAL_SEAL:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)


def check_seals(fd: int) -> None:
    """Raise `ArenaError` for a memfd whose size or seals another process may still change."""
    seals = _seals(fd)
    if seals not in (fcntl.F_SEAL_SEAL, SEALS):
        raise ArenaError(f"descriptor {fd} is not a shmcoll arena: its seals are {seals:#x}, expected {SEALS:#x}")


def _seals(fd: int) -> int:
    """Return the seals of a file. A file that is not a memfd has at most one seal, and can get no others."""
    try:
        return fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:  # /dev/shm may be on a disk
        return fcntl.F_SEAL_SEAL


def checked_size(fd: int) -> int:
    """Return the size of the file behind a descriptor. Raises `ArenaError` if it cannot be our arena."""
    try:
        info = os.fstat(fd)
    except OSError as e:
        raise ArenaError(
            f"the arena's descriptor {fd} is not open in this process: {e}. A program between the launcher and this "
            f"rank has closed it"
        ) from e
    if info.st_uid != os.geteuid():
        raise ArenaError(f"the arena belongs to uid {info.st_uid}, this rank runs as uid {os.geteuid()}")
    if not stat.S_ISREG(info.st_mode) or stat.S_IMODE(info.st_mode) & 0o077:
        raise ArenaError(f"the arena has mode {info.st_mode:o}; expected a regular file that only its owner can open")
    if info.st_size < layout.world_offset(1):
        raise ArenaError(f"the arena has {info.st_size} bytes, too few for its own job page")
    return info.st_size


def open_of(pid: int, fd: int) -> int | None:
    """Return a descriptor of the file behind a descriptor of another process, if it can be our arena.

    The pid may be another process's by now, and the file any file. It is looked at before it is opened.
    """
    try:
        seen = os.open(f"/proc/{pid}/fd/{fd}", os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        checked_size(seen)
        return os.open(f"/proc/self/fd/{seen}", os.O_RDWR | os.O_CLOEXEC)
    except (OSError, ArenaError):
        return None
    finally:
        os.close(seen)


def publish(fd: int, name: str) -> None:
    """Give the file of a finished arena its name in one step: no process ever finds an unfinished one."""
    folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def too_small(purpose: str, need: int, place: int | str | None) -> ArenaError:
    """Make the error for an arena that needs more memory than there is. place: as for `room`."""
    least = room(place)
    have = max(least.free, 0)
    return ArenaError(
        f"too little shared memory for {purpose}: {mib(need)} needed, {mib(have)} available; {least.limit}. "
        f"{least.advice}.",
        needed=need,
        available=have,
    )
