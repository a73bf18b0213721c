"""The table at the end of a job (`--report`): one line a rank.

exit         exit code, or the signal that killed it
time         from its start to its end
memory       the most that was in memory at one time: its own, and what it used of libraries and of the arena
collectives  that it took part in, in the world; - when it never joined
moved        bytes of the arrays that it gave to them
asleep       share of its time that it slept in waits for others; - like `moved` when it had no time to say so
"""

from collections.abc import Callable

from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.startup.exits import signal_name
from shmrun.start.rank import Rank
from shmrun.watch.supervise import Outcome

_COLUMNS: tuple[tuple[str, Callable[[Arena, Rank], str]], ...] = (
    ("rank", lambda arena, rank: str(rank.number)),
    ("exit", lambda arena, rank: _exit(rank)),
    ("time", lambda arena, rank: f"{(rank.ended - rank.started) / 1e9:.3f} s"),
    ("memory", lambda arena, rank: f"{rank.peak / (1 << 20):,.1f} MiB"),
    ("collectives", lambda arena, rank: _collectives(arena, rank.number)),
    ("moved", lambda arena, rank: _moved(arena, rank.number)),
    ("asleep", lambda arena, rank: _asleep(arena, rank)),
)


def table(outcome: Outcome) -> str:
    """The table, its columns aligned to the right."""
    rows = [[title for title, _ in _COLUMNS]]
    rows += [[cell(outcome.arena, rank) for _, cell in _COLUMNS] for rank in outcome.ranks]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def _exit(rank: Rank) -> str:
    status = rank.status or 0
    return str(status) if status >= 0 else signal_name(-status)


def _collectives(arena: Arena, rank: int) -> str:
    """The greater of the sequence words in a rank's two headers, which take turns."""
    if records.read(arena, rank, layout.BY_RANK).state == records.UNBORN:
        return "-"
    mailbox = _mailbox(arena, rank)
    headers = (mailbox, mailbox + layout.HEADER_BYTES)
    return str(max(arena.load(header + layout.HEADER_SEQUENCE) for header in headers))


def _moved(arena: Arena, rank: int) -> str:
    moved = arena.load(_mailbox(arena, rank) + layout.STATISTICS_MOVED)
    return f"{moved / (1 << 20):,.1f} MiB" if _left_in_order(arena, rank) else "-"


def _asleep(arena: Arena, rank: Rank) -> str:
    slept = arena.load(_mailbox(arena, rank.number) + layout.STATISTICS_SLEPT)
    return f"{slept / max(rank.ended - rank.started, 1):.0%}" if _left_in_order(arena, rank.number) else "-"


def _left_in_order(arena: Arena, rank: int) -> bool:
    """Whether the rank had the time to leave its figures: it joined and was not killed."""
    return arena.load(_mailbox(arena, rank) + layout.STATISTICS_LEFT) == 1


def _mailbox(arena: Arena, rank: int) -> int:
    return Group.world(arena).mailbox(rank)
