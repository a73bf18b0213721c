"""The directory for what this user has compiled and measured on this machine. No other user may write to it.

SHMCOLL_CACHE_DIR    replaces the user's cache directory
"""

import errno
import os
from pathlib import Path

from shmcoll.engine.system import trusted_files


def cache_folder() -> Path:
    """Return the directory, which is made if it does not exist.

    Raises `PermissionError` if it belongs to another user, or if others may write to it or to a directory above it.
    Raises `OSError` if it cannot be made.
    """
    folder = Path(os.environ.get("SHMCOLL_CACHE_DIR") or _usual()).absolute()
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


def _usual() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("shmcoll")
