"""The identity of descriptors: a number alone may be used again.

A program may close any descriptor that it did not open itself, as libraries for daemons do. Then the next file that it
opens gets the number. So code that keeps a number for later notes the file, and checks it before each use.
"""

import os
import stat
from typing import NamedTuple


class File(NamedTuple):
    """What a descriptor refers to. As long as a process holds the file, no other file has these three values."""

    device: int
    inode: int
    kind: int  # regular file, pipe, socket, ...


def file_of(fd: int) -> File | None:
    """Return what a descriptor refers to now; None if it is closed."""
    try:
        info = os.fstat(fd)
    except OSError:
        return None
    return File(info.st_dev, info.st_ino, stat.S_IFMT(info.st_mode))
