"""The directory for what this user has compiled and measured on this machine. No other user may write to it.

SHMCOLL_CACHE_DIR    replaces the user's cache directory

If there is no home directory, or it takes no directory, or another user may write there, a directory for temporary
files takes its place: containers start programs as any user. Nothing is made in place of a home that does not exist.
"""

import contextlib
import errno
import os
from pathlib import Path

from shmcoll.engine.system import trusted_files


def cache_folder() -> Path:
    """Return the directory, which is made if it does not exist.

    Raises `PermissionError` if it belongs to another user, or if others may write to it or to a directory above it.
    Raises `OSError` if it cannot be made.
    """
    if given := os.environ.get("SHMCOLL_CACHE_DIR"):
        return _ready(Path(given))
    try:
        return _ready(_in_home())
    except OSError:
        with contextlib.suppress(OSError):
            return _ready(Path(os.environ.get("TMPDIR") or "/tmp", f"shmcoll-{os.geteuid()}"))
        raise


def _ready(folder: Path) -> Path:
    folder = folder.absolute()
    _make(folder)
    trusted_files.check_folder(folder)
    return folder


def _make(folder: Path) -> None:
    """Make it and the missing directories above it, for this user only: the umask may let all users write."""
    if not folder.is_dir():
        _make(folder.parent)
        trusted_files.check_way(folder.parent)  # root makes nothing in a place to which a user's links lead
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None


def _in_home() -> Path:
    """Return the directory by the rules of XDG, which ignore a relative path. platformdirs, which knows them for all
    systems, takes 10 ms to import."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - that of Path raises if there is no home
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    folder = (caches if caches.is_absolute() else home / ".cache") / "shmcoll"
    if folder.is_relative_to(home) and not home.is_dir():
        raise FileNotFoundError(errno.ENOENT, "this user has no home directory", str(home))
    return folder
