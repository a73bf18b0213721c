"""The log files of the ranks (`--log-dir`): made before ranks start, opened again by the processes that write into
them.

Other users may write to the directory, too, as in /tmp. So links are not followed, opening a FIFO does not wait, and
nothing is written into a file that has a second name: it could be another file of ours, which another user has chosen.
If something else than a file of ours has the name of a log, it is removed. If that is not possible, the job does not
start.
"""

import os
from pathlib import Path

from shmcoll.engine.system import trusted_files


def make(path: Path) -> None:
    """Make an empty file of our own. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT
    try:
        fd = trusted_files.open_own(path, flags, 0o666)
    except trusted_files.Distrusted as e:
        try:
            path.unlink()
        except OSError:
            raise e from None
        fd = trusted_files.open_regular(path, flags | os.O_EXCL, 0o666)
    os.truncate(fd, 0)
    os.close(fd)


def append(path: Path) -> int:
    """Return a descriptor that adds to the file, which has been made. Raises `OSError`."""
    fd = trusted_files.open_regular(path, os.O_WRONLY | os.O_APPEND)
    if os.fstat(fd).st_nlink > 1:
        os.close(fd)
        raise trusted_files.Distrusted(f"{path} has other names (hard links) by now")
    return fd
