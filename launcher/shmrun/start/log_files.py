"""The log files of the ranks (`--log-dir`): made before ranks start, opened again by whoever writes into them.

Others may write the directory, too, as in /tmp. So no link is followed, no FIFO is waited for, and nothing is written
into a file that has a second name: it would be some other file of ours, which somebody else has chosen. What has the
name of a log and is not a file of ours gives way to one; where it cannot be removed, the job does not start.
"""

import os
from pathlib import Path

from shmcoll.engine.system import trusted_files


def make(path: Path) -> None:
    """An empty file of our own. Raises `OSError`."""
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
