"""The resources that each rank has used, at the end of a job: as a table (`--report`) and as JSON (`--report-json`).

exit         exit code, or the signal that killed it
time         from its start to its end
memory       the most that was in memory at one time: its own, and its part of libraries and of the arena
collectives  number of collectives in the world; - if it never joined
moved        bytes of the arrays that it passed to them
asleep       share of its time that it slept in waits for others; -, like `moved`, if it had no time to publish it

and, if ranks have shared ordinary numpy arrays (`--share-arrays`, `comm.allocating()`):

shared       the most that these arrays have taken of the arena
unshared     number and bytes of the arrays that found no room there, and became private
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena, mib
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system.text import aligned, to_bytes
from shmcoll.startup.exits import signal_name
from shmrun.cli.printing import tell
from shmrun.start.rank import Rank
from shmrun.watch.supervise import Outcome


@dataclass(frozen=True)
class Figures:
    """One rank. The names are the keys of the JSON; None: not known."""

    rank: int
    exit_code: int | None
    signal: str | None
    seconds: float
    memory_bytes: int
    collectives: int | None
    moved_bytes: int | None
    asleep: float | None  # of its time, 0 to 1
    shared_bytes: int
    unshared_arrays: int
    unshared_bytes: int

    @property
    def has_shared(self) -> bool:
        """Whether the rank has made ordinary numpy arrays that were shared, or were to be."""
        return self.shared_bytes > 0 or self.unshared_arrays > 0


def figures(arena: Arena, rank: Rank) -> Figures:
    status, mailbox = rank.status or 0, Group.world(arena).mailbox(rank.number)
    directory = layout.directory_offset(arena.ranks, rank.number)
    nanoseconds = max(rank.ended - rank.started, 1)
    # A rank that was killed, or has not joined, had no time to leave its figures
    left = arena.load(mailbox + layout.STATISTICS_LEFT) == 1
    joined = records.read(arena, rank.number, layout.BY_RANK).state != records.UNBORN
    return Figures(
        rank=rank.number,
        exit_code=status if status >= 0 else None,
        signal=signal_name(-status) if status < 0 else None,
        seconds=nanoseconds / 1e9,
        memory_bytes=rank.peak,
        collectives=Group.world(arena).published(rank.number) if joined else None,
        moved_bytes=arena.load(mailbox + layout.STATISTICS_MOVED) if left else None,
        asleep=arena.load(mailbox + layout.STATISTICS_SLEPT) / nanoseconds if left else None,
        shared_bytes=arena.load(directory + layout.ARRAYS_PEAK),
        unshared_arrays=arena.load(directory + layout.UNFIT),
        unshared_bytes=arena.load(directory + layout.UNFIT_BYTES),
    )


def table(outcome: Outcome) -> str:
    """Return the table, with its columns aligned to the right."""
    all_figures = [figures(outcome.arena, rank) for rank in outcome.ranks]
    rows: list[tuple[str, ...]] = [("rank", "exit", "time", "memory", "collectives", "moved", "asleep")]
    rows += [_row(one) for one in all_figures]
    if any(one.has_shared for one in all_figures):
        more = [("shared", "unshared"), *map(_shared, all_figures)]
        rows = [row + added for row, added in zip(rows, more, strict=True)]
    return "\n".join(aligned(rows, right=range(len(rows[0]))))


def write_json(outcome: Outcome, path: str) -> None:
    """Write the figures. If that fails, report it, and leave the exit code to the job."""
    document = {"format": 1, "ranks": [asdict(figures(outcome.arena, rank)) for rank in outcome.ranks]}
    try:
        Path(path).write_bytes(to_bytes(json.dumps(document, indent=1) + "\n"))
    except OSError as e:
        tell(f"shmrun: cannot write the report {path!r} (--report-json): {e.strerror or e}")


def _row(one: Figures) -> tuple[str, ...]:
    return (
        str(one.rank),
        str(one.exit_code) if one.signal is None else one.signal,
        f"{one.seconds:.3f} s",
        mib(one.memory_bytes),
        "-" if one.collectives is None else str(one.collectives),
        "-" if one.moved_bytes is None else mib(one.moved_bytes),
        "-" if one.asleep is None else f"{one.asleep:.0%}",
    )


def _shared(one: Figures) -> tuple[str, str]:
    return mib(one.shared_bytes), f"{one.unshared_arrays} ({mib(one.unshared_bytes)})" if one.unshared_arrays else "0"
