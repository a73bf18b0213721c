"""The pipes through which ranks print: which of a rank's descriptors 1 and 2 lead to the launcher, and by what.

Lines of several ranks stay whole because one process, the launcher, writes them all (`shmrun/watch/output.py`). Some
output does not pass through it:

* a rank that prints only into its log file writes there itself;
* the only rank of a job has no other output to mix with, so it writes where the launcher would;
* output to /dev/null is not read.

If 1 and 2 lead to the same place, as in a terminal or with `2>&1`, they share a pipe, so that the output of a rank
arrives in order. If the launcher's descriptor is a terminal, the rank gets a terminal of its own (a pty) in place of a
pipe. Then programs show colours and progress, and write line by line, as they do without a launcher. A rank whose lines
are marked gets a pipe: marks do not work together with moves of the cursor.
"""

import os
import stat
import termios
from collections.abc import Iterator
from dataclasses import dataclass

from shmcoll.engine.system.descriptors import file_of
from shmrun.cli.settings import Options


@dataclass(frozen=True)
class Channel:
    """A pipe from a rank to the launcher. numbers: the rank's descriptors that lead into it."""

    numbers: tuple[int, ...]
    read: int
    write: int


def wanted(options: Options) -> list[tuple[int, ...]]:
    """Return which descriptors of each rank lead to the launcher. The descriptors in one tuple share a pipe."""
    if options.log_dir and not options.tee:
        return []
    must = options.tag_output or options.tee
    if options.ranks == 1 and not must:
        return []
    if file_of(1) == file_of(2):
        return [(1, 2)] if must or not _is_null(1) else []
    return [(number,) for number in (1, 2) if must or not _is_null(number)]


def make(options: Options, rank: int) -> Iterator[Channel]:
    """Return the channels of one rank. Raises `OSError`."""
    if options.log_dir and not options.shows(rank):
        return
    for numbers in wanted(options):
        read, write = _terminal(numbers[0]) if not options.tag_output and os.isatty(numbers[0]) else os.pipe()
        yield Channel(numbers, read, write)


def _terminal(number: int) -> tuple[int, int]:
    """Return a terminal like the one behind a descriptor; a pipe if the system has no more terminals."""
    try:
        read, write = os.openpty()
    except OSError:
        return os.pipe()
    settings = termios.tcgetattr(write)
    settings[1] &= ~termios.OPOST  # the terminal itself does that: \n becomes \r\n once
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(write, termios.TCSANOW, settings)
    termios.tcsetwinsize(write, termios.tcgetwinsize(number))
    return read, write


def _is_null(number: int) -> bool:
    info = os.fstat(number)
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == os.makedev(1, 3)
