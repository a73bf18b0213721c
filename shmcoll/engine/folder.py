"""Where this user keeps what has been compiled and measured on this machine: a directory that nobody else may write.

SHMCOLL_CACHE_DIR    this one, in place of the user's cache directory
"""

import os
import stat
from pathlib import Path


def cache_folder() -> Path:
    """The directory, made when needed.

    Raises `PermissionError` when it belongs to somebody else or others may write it, `OSError` when it cannot be made.
    """
    folder = Path(os.environ.get("SHMCOLL_CACHE_DIR") or _usual())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_owner(folder, folder.stat())
    return folder


def check_owner(path: Path, info: os.stat_result) -> None:
    """Raise `PermissionError` for what belongs to somebody else, or others may write."""
    if info.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to uid {info.st_uid}, not to uid {os.geteuid()}")
    if stat.S_IMODE(info.st_mode) & 0o022:
        raise PermissionError(f"others may write {path} (mode {stat.S_IMODE(info.st_mode):o}); chmod go-w it")


def _usual() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("shmcoll")
