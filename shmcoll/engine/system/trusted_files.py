"""Files that decide what we do: used only if no other user, except root, can have written them.

The trust boundary is the user id. We read code that we execute, or settings that choose what is executed. So a file is
used only if all of this holds:

    the file        It is a regular file with one name and the right owner, and no other user may write to it. It is
                    opened without following a link and without waiting for a FIFO. It is checked and read by the same
                    descriptor: the bytes that were checked are the bytes that are used
    the way there   Every directory and link that decides what the path leads to belongs to this user or root, and no
                    other user may write to the directory. In a sticky directory (/tmp) others cannot replace what
                    belongs to this user or root, so the way may lead through one. No other user can change such a way,
                    so it need not be checked again after the file is open

A file is written with the mode 0600 and a random name, and then gets its own name by rename.

A group counts as others, except the private group that many systems give each user: one of the user's own name that
lists no other member. The group's bits may come from a POSIX access list. A file that has such a list is not excepted.
"""

import contextlib
import errno
import grp
import os
import pwd
import stat
from functools import cache
from pathlib import Path

from shmcoll.engine.system.text import read_text

_MOST_LINKS = 40  # the kernel's limit
_UNMAPPED = 65534  # shown in a user namespace for users that it does not know


class Distrusted(PermissionError):
    """Another user owns a file or directory, or may write to it. The text names it and says what to do."""


def read(path: Path) -> bytes:
    """Return the contents of this user's own file. Raises `Distrusted`, `FileNotFoundError` and other `OSError`.

    The way to the file is not checked: that is done once for its folder (`check_folder`).
    """
    fd = open_own(path, os.O_RDONLY)
    with open(fd, "rb") as file:
        return file.read()


def read_installed(path: Path) -> bytes:
    """Read a file that was installed beside our code, by this user or root. Raises `Distrusted`, `FileNotFoundError`
    and other `OSError`.

    The way to its folder is not checked: a person who can change that can replace our code as well. The file may have
    several names: some installers link the files of a package from their cache. A link cannot bring a wrong file here,
    because only this user or root may add names to the folder.
    """
    fd = open_regular(path)
    with open(fd, "rb") as file:
        check_holder(path.parent)
        _check_file(path, os.fstat(fd), fd, {os.geteuid(), *_roots()}, names=None)
        return file.read()


def write(path: Path, data: bytes) -> None:
    """Write a file, in place of any file with this name: no process ever reads half of it. Raises `OSError`."""
    scratch = path.with_name(f"{path.name}.{os.urandom(8).hex()}.tmp")
    try:
        with open(scratch, "xb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)) as file:
            file.write(data)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def open_own(path: Path, flags: int, mode: int = 0o600) -> int:
    """Return a descriptor of this user's own file. Raises `Distrusted`, `FileNotFoundError` and other `OSError`."""
    fd = open_regular(path, flags, mode)
    try:
        _check_file(path, os.fstat(fd), fd, {os.geteuid()})
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Return a descriptor of a regular file, whoever owns it. Raises `Distrusted` for any other kind, `OSError`."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise Distrusted(f"{path} is a symbolic link; a file is expected there") from e
        if e.errno == errno.ENXIO:
            raise Distrusted(f"{path} is not a regular file; remove it") from e
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        os.set_blocking(fd, True)
        return fd
    os.close(fd)
    raise Distrusted(f"{path} is not a regular file; remove it")


def check_file(path: Path, fd: int) -> None:
    """Raise `Distrusted` unless the open file is this user's or root's, and no other user may write to it."""
    _check_file(path, os.fstat(fd), fd, {os.geteuid(), *_roots()})


def check_folder(path: Path) -> None:
    """Raise `Distrusted` unless the directory is this user's, and no other user may write to it or change the way to
    it."""
    check_way(path)
    check_holder(path)
    if (owner := path.stat().st_uid) != os.geteuid():
        raise Distrusted(f"{path} belongs to uid {owner}, not to uid {os.geteuid()}")


def check_holder(path: Path) -> None:
    """Raise `Distrusted` unless a directory is this user's or root's, and no other user may add files to it."""
    info = path.stat()
    _check_owner(path, info)
    if _others_may_write(info, path):
        raise _open_to_others(path, info)


def check_way(path: Path) -> None:
    """Raise `Distrusted` if another user decides what a path leads to, and `OSError` if it leads nowhere."""
    steps = list(reversed(path.absolute().parts[1:]))
    here, links = Path("/"), 0
    while True:
        _check_step(here, last=not steps)
        if not steps:
            return
        step = steps.pop()
        there = here.parent if step == ".." else here / step
        if there.is_symlink():
            _check_owner(there, there.lstat())
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = there.readlink()
            if target.is_absolute():
                here = Path("/")
            steps += reversed(target.parts[target.is_absolute() :])
        else:
            here = there


def _check_step(path: Path, *, last: bool) -> None:
    info = path.lstat()
    _check_owner(path, info)
    if not last and _others_may_write(info, path) and not info.st_mode & stat.S_ISVTX:
        raise _open_to_others(path, info)


def _check_owner(path: Path, info: os.stat_result) -> None:
    if info.st_uid not in {os.geteuid(), *_roots()}:
        raise Distrusted(f"{path} belongs to uid {info.st_uid}, not to uid {os.geteuid()} or root")


def _check_file(path: Path, info: os.stat_result, fd: int, owners: set[int], names: int | None = 1) -> None:
    if info.st_uid not in owners:
        raise Distrusted(f"{path} belongs to uid {info.st_uid}, not to uid {os.geteuid()}")
    if _others_may_write(info, fd):
        raise _open_to_others(path, info)
    if names is not None and info.st_nlink > names:
        raise Distrusted(f"{path} has {info.st_nlink} names (hard links), one is expected; remove it")


def _open_to_others(path: Path, info: os.stat_result) -> Distrusted:
    return Distrusted(f"others may write {path} (mode {stat.S_IMODE(info.st_mode):o}); chmod go-w it")


def _others_may_write(info: os.stat_result, where: Path | int) -> bool:
    if info.st_mode & stat.S_IWOTH:
        return True
    return bool(info.st_mode & stat.S_IWGRP) and (not _is_private(info.st_gid) or _has_access_list(where))


def _has_access_list(where: Path | int) -> bool:
    with contextlib.suppress(OSError):
        os.getxattr(where, "system.posix_acl_access")
        return True
    return False


@cache
def _is_private(gid: int) -> bool:
    """Return whether this group has only this user. Group 0 never counts: containers put many users there."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except (KeyError, OSError):
        return False
    return gid != 0 and user.pw_gid == gid and user.pw_name == group.gr_name and {*group.gr_mem} <= {user.pw_name}


@cache
def _roots() -> frozenset[int]:
    """Return the owners that root's files may show: 0, and the user `nobody` in a user namespace that does not know
    root."""
    with contextlib.suppress(OSError, ValueError):
        lines = [[int(word) for word in line.split()] for line in read_text("/proc/self/uid_map").splitlines()]
        if not any(first <= _UNMAPPED < first + count for first, _, count in lines):
            return frozenset({0, _UNMAPPED})
    return frozenset({0})
