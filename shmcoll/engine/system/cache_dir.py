"""Where this user keeps what has been compiled and measured on this machine: a directory that nobody else may write.

SHMCOLL_CACHE_DIR    this one, in place of the user's cache directory
"""

import errno
import os
from pathlib import Path

from shmcoll.engine.system import trusted_files


def cache_folder() -> Path:
    """Return the directory, made when needed.

    Raises `PermissionError` when it belongs to somebody else, or others may write it or a directory above it; `OSError`
    when it cannot be made.
    """
    folder = Path(os.environ.get("SHMCOLL_CACHE_DIR") or _usual()).absolute()
    _make(folder)
    trusted_files.check_folder(folder)
    return folder


def _make(folder: Path) -> None:
    """Make it, and what is missing above it, for this user alone: the umask may let everybody write."""
    if not folder.is_dir():
        _make(folder.parent)
        trusted_files.check_way(folder.parent)  # root makes nothing where a user's links lead
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None


def _usual() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("shmcoll")
