"""The names of arenas in /dev/shm, under which ranks meet if no launcher of ours has given them a descriptor.

    shmcoll.UID.JOB.RANDOM      UID: the user; JOB: a hash of the job's key; RANDOM: 128 random bits

Any user can guess UID and JOB, and can create any file in /dev/shm. So no name of a job is reserved: each arena has a
random name, and processes list the folder to find the arenas of their job. They ignore every file that is not an arena
of their user: the owner is checked first, so a file of another user is never opened, and no process waits for it. Only
a regular file that no other user may open counts. It is opened without following a link or waiting for a FIFO, and the
descriptor is checked again, because the name may mean another file by then.

The arena's nonce is a hash of its name. A second name of an arena does not fit the nonce, and is ignored, too. (It is a
hard link, which another user can make if the kernel does not forbid it.)

A name is never used again. So when the creator of an arena has ended, its name is a left-over for all time, and any
process of the user may remove it without a lock.

A list of the folder is complete: a name that exists before the listing begins, and still exists when it ends, is in it.
It reads the name of each file in /dev/shm, and calls `lstat` for each name with the right beginning.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from shmcoll.engine import layout
from shmcoll.engine.system.processes import has_ended
from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import ArenaError

FOLDER = Path("/dev/shm")

#: errors of opening a file that is gone, or that is by now another user's file, folder, link or socket
_NOT_OURS = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EAGAIN, errno.EISDIR, errno.ELOOP, errno.ENXIO)


def every_job() -> str:
    """Return the beginning of the names of all arenas of this user."""
    return f"shmcoll.{os.geteuid()}."


def of_job(key: str) -> str:
    """Return the beginning of the names of all arenas of a job."""
    return f"{every_job()}{hashlib.sha256(to_bytes(key)).hexdigest()[:32]}."


def new(key: str) -> str:
    """Return a name for a new arena of a job."""
    return of_job(key) + os.urandom(16).hex()


def nonce_of(name: str) -> bytes:
    """Return the nonce of the arena that has this name."""
    return hashlib.sha256(to_bytes(name)).digest()[:16]


def living(start: str) -> Iterator[tuple[str, int]]:
    """Yield name and descriptor of each arena of this user whose name begins with `start` and whose creator lives.

    Remove the names of those whose creators have ended. Each descriptor is closed when the next one is requested.
    Raises `ArenaError` if /dev/shm cannot be listed.
    """
    for name in _listed(start):
        fd = _open_own(name)
        if fd is not None:
            try:
                creator, creator_start = (
                    _word(fd, offset) for offset in (layout.JOB_CREATOR, layout.JOB_CREATOR_START)
                )
                if has_ended(creator, creator_start):
                    remove(name)
                else:
                    yield name, fd
            finally:
                os.close(fd)


def remove(name: str) -> None:
    """Remove the name of an arena, if it still exists."""
    with contextlib.suppress(OSError):  # it may be gone, and another user may have made a file or folder of that name
        (FOLDER / name).unlink()


def _listed(start: str) -> list[str]:
    try:
        with os.scandir(FOLDER) as entries:
            return [entry.name for entry in entries if entry.name.startswith(start) and _may_be_own(entry)]
    except FileNotFoundError:
        return []
    except OSError as e:
        raise ArenaError(f"cannot list {FOLDER}, where ranks find the arena of their job: {e.strerror}") from e


def _open_own(name: str) -> int | None:
    """Return a descriptor of an arena of this user under its own name; None for any other file, and if there is no
    file."""
    path = FOLDER / name
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if e.errno in _NOT_OURS:
            return None
        raise ArenaError(f"cannot open {path}: {e.strerror}") from e
    if _is_own(os.fstat(fd)) and os.pread(fd, 16, layout.JOB_NONCE) == nonce_of(name):
        return fd
    os.close(fd)
    return None


def _may_be_own(entry: os.DirEntry[str]) -> bool:
    try:
        return _is_own(entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def _is_own(info: os.stat_result) -> bool:
    """Return whether a file is regular and this user's, and no other user may open it."""
    return stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and not stat.S_IMODE(info.st_mode) & 0o077


def _word(fd: int, offset: int) -> int:
    return int.from_bytes(os.pread(fd, layout.WORD, offset), "little", signed=True)
