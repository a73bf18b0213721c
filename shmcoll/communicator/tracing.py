"""The recording of calls while a block of the program runs: `Communicator.trace`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shmcoll.errors import ArenaError, CallNotAllowed
from shmcoll.profiling import reading, timeline
from shmcoll.profiling.spans import RankProfile
from shmcoll.profiling.statistics import Statistics, statistics


class Trace:
    """What `Communicator.trace` records. It is empty until the block has ended, and on all ranks but rank 0."""

    def __init__(self) -> None:
        self.profiles: list[RankProfile] = []

    @property
    def statistics(self) -> Statistics:
        """Where the time went: `print` it, or ask `document()` for figures."""
        return statistics(self.profiles)

    def write(self, file: str | os.PathLike[str]) -> None:
        """Write the timeline, which Perfetto and chrome://tracing open.

        Args:
            file: its name; a name that ends in .gz is that of a compressed file.

        Raises:
            OSError: the file cannot be written.
        """
        timeline.write(os.fsdecode(file), self.profiles)


@contextmanager
def recorded(comm: Any, file: str | os.PathLike[str] | None) -> Iterator[Trace]:
    """Record the calls of all ranks of `comm` in the block, and write the timeline to a file on rank 0."""
    rank = comm._local_rank
    comm._dispatcher.check_open("trace")
    with comm._dispatcher.checking("trace"):
        path = None if file is None else os.fsdecode(file)
    wrong: Exception | None = None
    is_on = False
    try:
        if path is not None and comm.rank == 0:
            path = _writable(path)
        rank.record(traces=True)
        is_on = True
    except (ArenaError, OSError, ValueError) as error:
        wrong = error
    try:
        _raise_first(comm, wrong)
        first, begun = comm._difference_of_clocks(), time.monotonic_ns()
        trace, before = Trace(), read(comm)
        yield trace
        after, ended = read(comm), time.monotonic_ns()
    finally:
        if is_on:
            rank.record_no_more(traces=True)
    last = comm._difference_of_clocks()
    drift = (last[0] - first[0]) / (ended - begun)
    mine = reading.shifted(reading.since(before, after), first[0], drift, max(first[1], last[1]))
    gathered = comm.gather_object(mine, 0)
    wrong = None
    if gathered is not None:
        trace.profiles = reading.joined(gathered)
        try:
            if path is not None:
                trace.write(path)
        except (OSError, ValueError, MemoryError) as error:  # the others wait to hear of it
            wrong = error
    _raise_first(comm, wrong)


def read(comm: Any) -> RankProfile:
    """Return the profile of this rank."""
    comm._dispatcher.check_rank("statistics")
    found: RankProfile | None = reading.read(comm._local_rank.arena, comm._local_rank.rank)
    if comm._local_rank.recorder is None or found is None:
        raise CallNotAllowed(
            f"statistics on rank {comm._dispatcher.failures.name}: nothing is recorded; start the job with "
            f"shmrun --stats or SHMCOLL_STATS=1, or make the calls in `with comm.trace() as trace`: it has statistics"
        )
    return found


def statistics_of(comm: Any) -> Statistics:
    """Return the statistics of all ranks of this node."""
    read(comm)
    return statistics(reading.profiles(comm._local_rank.arena))


def _writable(path: str) -> str:
    """Return the absolute name of a file: the block may change the current directory. Raises `OSError` or `ValueError`
    if it certainly cannot be written."""
    if "\0" in path:
        raise ValueError(f"trace: {path!r} is no name of a file: it has a null byte")
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"trace: {path!r} cannot be written: it is the name of a directory")
    folder, is_special = target.parent, target.exists() and not target.is_file()  # such as /dev/stdout
    if not (is_special or (folder.is_dir() and os.access(folder, os.W_OK))):
        raise OSError(f"trace: {path!r} cannot be written: {folder} is not a directory in which this user may write")
    return str(Path(path).absolute())


def _raise_first(comm: Any, wrong: Exception | None) -> None:
    """Raise on all ranks what the first of them has found wrong."""
    found = next((one for one in comm.all_gather_object(wrong) if one is not None), None)
    if wrong or found:
        raise wrong or found  # type: ignore[misc]
